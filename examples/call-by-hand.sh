#!/bin/sh
# Call a probe as a runtime would, with nothing but a verb, a container and a configuration.
#
#   call-by-hand.sh /opt/cni/bin/capture-pre
#   CNI_COMMAND=DEL call-by-hand.sh bin/capture-post
#   CNI_COMMAND=VERSION call-by-hand.sh bin/capture-pre
#
# The answer comes on stdout, the record goes to CNI_CAPTURE_LOG_FILE, or /tmp/cni.log.
set -eu

CNI_COMMAND=${CNI_COMMAND:-ADD} CNI_CONTAINERID=${CNI_CONTAINERID:-by-hand} exec "${1:-capture-pre}" <<'CONFIG'
{
  "cniVersion": "1.0.0",
  "name": "by-hand",
  "type": "capture-pre",
  "prevResult": {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "eth0", "mac": "0a:58:0a:09:08:07", "sandbox": "/var/run/netns/by-hand"}],
    "ips": [{"address": "10.9.8.7/24", "interface": 0}]
  }
}
CONFIG
