# SPDX-License-Identifier: Apache-2.0
"""What does a TRex profile in Python make? Prints it as JSON, as TRex's client would send it: a list of streams of a stateless
profile, an object of a stateful (ASTF) one.

The only argument is JSON: {"file": ..., "direction": 0 or 1, "tunables": {name: value}, "tags": true or false}. With `tags` the
file is no profile, but has the tags of tagged packet groups: a list of them is printed. Exits with 3 where TRex's client is not
installed. What the profile prints goes to standard error.
"""
import contextlib
import html
import importlib
import importlib.util
import json
import os
import sys
import types


def modules_of_old_pythons():
    """TRex's client and the Scapy in it use what Python 3.12 and 3.13 removed; gives them the little that they need."""
    if not importlib.util.find_spec("imp"):
        sys.modules["imp"] = types.ModuleType("imp")
        sys.modules["imp"].reload = importlib.reload
    if not importlib.util.find_spec("cgi"):
        sys.modules["cgi"] = types.ModuleType("cgi")
        sys.modules["cgi"].escape = html.escape
    if sys.version_info >= (3, 12):
        sys.meta_path.append(OldFinders)


class OldFinders:
    """Finds modules by finders of before Python 3.4, such as that of `six`, which Python 3.12 ignores."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        for finder in sys.meta_path:
            if not hasattr(finder, "find_spec"):
                loader = finder.find_module(name, path)
                if loader:
                    return importlib.util.spec_from_loader(name, loader)
        return None


def registered(file):
    """What the profile's `register` gives. The client imports the file again, by its name."""
    if not os.path.isfile(file):
        sys.exit("No such file")
    name = os.path.basename(file).split(".")[0]
    sys.path.insert(0, os.path.dirname(file))
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.pop(0)
    if os.path.realpath(getattr(module, "__file__", None) or "") != os.path.realpath(file):
        sys.exit("Python has another module %r of its own: rename the file" % name)
    if hasattr(module, "register"):
        return module.register()
    if hasattr(module, "get_topo"):
        sys.exit("it makes a topology of tunnels or clients, not a profile: give the pools of the templates gtpu, vlans or a gateway by hand")
    sys.exit("it has no function `register`, by which TRex finds a profile")


def load_tags(file):
    """The tags of tagged packet groups, as TRex's client sends them."""
    configuration = registered(file)
    if not hasattr(configuration, "get_tpg_conf"):
        sys.exit("what its `register` gives has no get_tpg_conf: it has no tags of tagged packet groups")
    return configuration.get_tpg_conf(tunables=[])


def load(file, direction, tunables):
    """The profile as JSON."""
    profile = registered(file)
    # Older profiles take tunables as arguments, newer ones parse them like a command line: both are given.
    values, line = {}, []
    for name, value in tunables.items():
        values.update(parsing_opts.decode_tunables(name + "=" + value))
        line += ["--" + name, value]
    arguments = {**values, "tunables": line}
    if hasattr(profile, "get_profile"):
        if direction:
            sys.exit("--direction goes with stateless profiles: a stateful one has both sides")
        made = ASTFProfile.load(file, **arguments)
    elif hasattr(profile, "get_streams"):
        made = STLProfile.load(file, direction=direction, port_id=direction, **arguments)
    elif hasattr(profile, "get_tpg_conf"):
        sys.exit("it has the tags of tagged packet groups, and makes no traffic: name it with --tags, beside the profile of the streams")
    else:
        sys.exit("what its `register` gives has neither get_streams (stateless) nor get_profile (stateful)")
    if made is None:
        sys.exit("the profile makes nothing of these tunables")
    return made.to_json()


def reason(problem):
    """What went wrong, for people."""
    if hasattr(problem, "brief"):
        return problem.brief()
    return "%s: %s" % (type(problem).__name__, problem)


asked = json.loads(sys.argv[1])

with contextlib.redirect_stdout(sys.stderr):
    modules_of_old_pythons()
    if importlib.util.find_spec("lbr_trex_client"):
        import lbr_trex_client  # noqa: F401 (puts `trex` into the path)
    if not importlib.util.find_spec("trex"):
        sys.exit(3)
    from trex.astf.trex_astf_profile import ASTFProfile
    from trex.stl.api import STLProfile
    from trex.utils import parsing_opts

    try:
        file = os.path.abspath(asked["file"])
        made = load_tags(file) if asked.get("tags") else load(file, asked["direction"], asked["tunables"])
    except Exception as problem:
        sys.exit(reason(problem))

json.dump(made, sys.stdout)
