"""A client of the container runtime interface, doing with a pod what kubelet does.

Calls and messages: k8s.io/cri-api, pkg/apis/runtime/v1/api.proto, from PyPI's container-runtime-interface-api.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import grpc
from cri_api.v1 import api_pb2 as api
from google.protobuf.message import Message

from tests.runtimes import image

SECONDS = 60


class CriError(Exception):
    """The runtime refused; the message is what kubelet would put into the pod's events."""


M = TypeVar("M", bound=Message)


class Cri:
    """A client of the runtime that listens on a socket."""

    def __init__(self, socket: Path) -> None:
        self._target = f"unix:{socket}"

    def _call(self, method: str, request: Message, answer: type[M]) -> M:
        with grpc.insecure_channel(self._target) as channel:
            rpc: grpc.UnaryUnaryMultiCallable[Message, M] = channel.unary_unary(
                f"/runtime.v1.RuntimeService/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            try:
                return rpc(request, timeout=SECONDS)
            except grpc.RpcError as error:
                raise CriError(error.details()) from None

    def version(self) -> str:
        """The runtime's name and version; answered without asking a plugin, hence the sign of life to wait for."""
        answer = self._call("Version", api.VersionRequest(), api.VersionResponse)
        return f"{answer.runtime_name} {answer.runtime_version}"

    def conditions(self) -> dict[str, tuple[bool, str, str]]:
        """Whether runtime and network are ready, why not, and in whose words: what makes a node Ready or NotReady."""
        status = self._call("Status", api.StatusRequest(), api.StatusResponse).status
        ours = ("RuntimeReady", "NetworkReady")
        return {c.type: (c.status, c.reason, c.message) for c in status.conditions if c.type in ours}

    def chain(self) -> list[str]:
        """The plugin types of the network that the runtime has loaded, the loopback it adds itself aside."""
        answer = self._call("Status", api.StatusRequest(verbose=True), api.StatusResponse)
        networks = json.loads(answer.info["cniconfig"]).get("Networks") or []
        return [
            plugin["Network"]["type"]
            for network in networks
            if network["Config"]["Name"] != "cni-loopback"
            for plugin in network["Config"]["Plugins"]
        ]

    def run_pod(self, pod: api.PodSandboxConfig) -> str:
        """Run a pod's sandbox, its network included; returns the ID, which is also CNI's container ID."""
        return self._call(
            "RunPodSandbox", api.RunPodSandboxRequest(config=pod), api.RunPodSandboxResponse
        ).pod_sandbox_id

    def pod_status(self, sandbox: str) -> tuple[str, str]:
        """Address and network namespace of a running pod."""
        request = api.PodSandboxStatusRequest(pod_sandbox_id=sandbox, verbose=True)
        answer = self._call("PodSandboxStatus", request, api.PodSandboxStatusResponse)
        spec = json.loads(answer.info["info"])["runtimeSpec"]
        (namespace,) = [n["path"] for n in spec["linux"]["namespaces"] if n["type"] == "network"]
        return answer.status.network.ip, namespace

    def start_container(self, sandbox: str, pod: api.PodSandboxConfig, command: Sequence[str]) -> str:
        """Create and start one container in a pod; returns its ID."""
        config = api.ContainerConfig(
            metadata=api.ContainerMetadata(name="main"), image=api.ImageSpec(image=image.NAME), command=command
        )
        request = api.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
        container = self._call("CreateContainer", request, api.CreateContainerResponse).container_id
        self._call("StartContainer", api.StartContainerRequest(container_id=container), api.StartContainerResponse)
        return container

    def execute(self, container: str, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in a container; returns exit code and what it printed on both streams."""
        request = api.ExecSyncRequest(container_id=container, cmd=argv, timeout=SECONDS)
        answer = self._call("ExecSync", request, api.ExecSyncResponse)
        return answer.exit_code, (answer.stdout + answer.stderr).decode()

    def stop_pod(self, sandbox: str) -> None:
        request = api.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        self._call("StopPodSandbox", request, api.StopPodSandboxResponse)

    def remove_pod(self, sandbox: str) -> None:
        self._call(
            "RemovePodSandbox", api.RemovePodSandboxRequest(pod_sandbox_id=sandbox), api.RemovePodSandboxResponse
        )


def pod_config(
    name: str,
    *,
    cgroup_parent: str,
    ports: Mapping[int, int] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> api.PodSandboxConfig:
    """What kubelet sends for a pod; `ports` maps ports of the host to ports of the pod, all TCP."""
    mappings = [
        api.PortMapping(protocol=api.TCP, host_port=host, container_port=inside)
        for host, inside in (ports or {}).items()
    ]
    return api.PodSandboxConfig(
        metadata=api.PodSandboxMetadata(name=name, uid=f"uid-of-{name}", namespace="default"),
        hostname=name,
        log_directory=f"/var/log/pods/{name}",
        dns_config=api.DNSConfig(servers=["10.96.0.10"], searches=["default.svc.cluster.local"]),
        port_mappings=mappings,
        labels={"app": name},
        annotations=annotations,
        linux=api.LinuxPodSandboxConfig(cgroup_parent=cgroup_parent),
    )
