# SPDX-License-Identifier: Apache-2.0
"""Which streams does a TRex profile in Python make? Prints them as JSON, as TRex's client would send them.

The only argument is JSON: {"file": ..., "direction": 0 or 1, "tunables": {name: value}}. Exits with 3 where TRex's client is
not installed. What the profile prints goes to standard error.
"""
import contextlib
import importlib.util
import json
import sys

asked = json.loads(sys.argv[1])

with contextlib.redirect_stdout(sys.stderr):
    if importlib.util.find_spec("lbr_trex_client"):
        import lbr_trex_client  # noqa: F401 (puts `trex` into the path)
    if not importlib.util.find_spec("trex"):
        sys.exit(3)
    from trex.stl.api import STLProfile
    from trex.utils import parsing_opts

    # Older profiles take tunables as arguments, newer ones parse them like a command line: both are given.
    values, line = {}, []
    for name, value in asked["tunables"].items():
        values.update(parsing_opts.decode_tunables(name + "=" + value))
        line += ["--" + name, value]
    try:
        profile = STLProfile.load(
            asked["file"], direction=asked["direction"], port_id=asked["direction"], **{**values, "tunables": line}
        )
    except Exception as problem:
        sys.exit(getattr(problem, "brief", lambda: str(problem))())
    if profile is None:
        sys.exit("the profile makes no streams of these tunables")
    streams = profile.to_json()

json.dump(streams, sys.stdout)
