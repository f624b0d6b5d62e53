"""What goes back to the runtime."""

from cni_capture.call import CNIError, Config, quote

# Spec, "Version": what a plugin says that it supports.
SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")


def result(config: Config) -> str:
    """The answer to ADD: `prevResult` exactly as it came; with none, a result that says nothing but its version.

    Spec, "Section 5": a chained plugin must output prevResult as its result, if it changed nothing.
    """
    return config.raw("prevResult") or f'{{"cniVersion": {config.cni_version}}}'


def version() -> str:
    """The answer to VERSION."""
    versions = ", ".join([f'"{version}"' for version in SUPPORTED])
    return f'{{"cniVersion": "{SUPPORTED[-1]}", "supportedVersions": [{versions}]}}'


def error(error: CNIError, config: "Config | None") -> str:
    """An error object (spec, "Error"), in the version of the configuration where there is one."""
    cni_version = config.cni_version if config else f'"{SUPPORTED[-1]}"'
    details = f', "details": {quote(error.details)}' if error.details else ""
    return f'{{"cniVersion": {cni_version}, "code": {error.code}, "msg": {quote(error.msg)}{details}}}'
