"""The module extension for Python: `@local_python` and the hubs of wheels.

    python = use_extension("//third_party/python:extensions.bzl", "python")
    python.hub(
        name = "pypi",
        locks = ["//third_party/python/locks:common.json"],
        torch_locks = {...},
    )
    use_repo(python, "debian_python", "local_python", "pypi")

Wheels are `@pypi//NAME`, a py_library each, with the name in lower case and "_" for "-" and ".".
Another module may use `pypi`, too, and stand hubs of its own on it (docs/lowering_in_a_build.md).
"""

load("//third_party/debian:packages.bzl", "debian_packages")
load(":layouts.bzl", "LAYOUTS", "NO_LAYOUT")
load(":local_python.bzl", "local_python")
load(":wheels.bzl", "hub_repository", "wheel_repository")

TORCH_SETTING = "PTERON_TORCH"

def torch_remedy(choice, choices):
    """What an error about a wheel of a torch lock says about the other locks.

    Args:
        choice: name of the chosen lock.
        choices: names of all torch locks.

    Returns:
        the text, with its newline.
    """
    others = [
        "--repo_env=%s=%s" % (TORCH_SETTING, other)
        for other in choices
        if other != choice
    ]
    return ("The %s lock of torch is chosen. If the package index has another build of torch, " +
            "choose its lock with %s (on the command line, or in user.bazelrc as " +
            "`common --repo_env=...`).\n") % (choice, " or ".join(others))

def unknown_torch_error(choice, choices):
    """The text of the error for a setting that names no lock.

    Args:
        choice: the value of the setting.
        choices: names of all torch locks.

    Returns:
        the text.
    """
    return ("%s=%s, but there is no such lock of torch. Choose one of: %s; or the absolute path " +
            "of a virtual environment, or of a Python, that has torch installed.") % (
        TORCH_SETTING,
        choice,
        ", ".join(choices),
    )

def torch_choices(locks):
    """What the setting can name: each lock by its name, and by its name with its release.

    Args:
        locks: name of a lock to its packages.

    Returns:
        name to the name of its lock, sorted: {"cpu": "cpu", "cpu-2.13.0": "cpu"}.
    """
    choices = {}
    for name, wheels in locks.items():
        release = wheels["torch"]["version"].split("+")[0]
        choices[name.removesuffix("-" + release) + "-" + release] = name
        choices[name] = name
    return {choice: choices[choice] for choice in sorted(choices)}

def _read_lock(module_ctx, label):
    path = (label.package + "/" if label.package else "") + label.name
    return path, json.decode(module_ctx.read(label))

def _chosen_torch(module_ctx, hub):
    """The lock of torch that the setting chooses.

    Returns:
        its path, its wheels, what the names of their repositories end with, what to try when one
        of them is not to be had, and the path of an environment that has them already, or "".
    """
    locks = {name: _read_lock(module_ctx, label) for label, name in hub.torch_locks.items()}
    choices = torch_choices({name: lock["wheels"] for name, (_, lock) in locks.items()})
    choice = module_ctx.getenv(TORCH_SETTING) or "cpu"
    installed = choice if choice.startswith("/") else ""
    if not installed and choice not in choices:
        fail(unknown_torch_error(choice, choices))
    name = "cpu" if installed else choices[choice]
    path, lock = locks[name]
    suffix = "_installed" if installed else "_" + name
    return path, lock["wheels"], suffix, torch_remedy(name, choices), installed

def _define_hub(module_ctx, hub, outer):
    """Declares a hub's repositories.

    Args:
        module_ctx: context of the extension.
        hub: the tag.
        outer: name to repository of the wheels of the hub it stands on.

    Returns:
        name to repository of all wheels it knows, its own and those of `outer`.
    """
    sources = []
    for label in hub.locks:
        path, lock = _read_lock(module_ctx, label)
        sources.append((path, lock["wheels"], "", "", ""))
    if hub.torch_locks:
        sources.append(_chosen_torch(module_ctx, hub))

    found = []
    own = {}
    for path, wheels, suffix, remedy, installed in sources:
        for name, wheel in wheels.items():
            own[name] = "%s_%s%s" % (hub.name, name, suffix)
            found.append((name, wheel, path, remedy, installed))
    known = dict(outer, **own)
    for name, wheel, path, remedy, installed in found:
        layout = LAYOUTS.get(name, NO_LAYOUT)
        wheel_repository(
            name = own[name],
            files = layout.files,
            headers = layout.headers,
            installed = installed,
            is_testonly = hub.testonly,
            lock = path,
            pinned = known.keys() if installed else [],
            remedy = remedy,
            wheel = json.encode({
                "name": name,
                "version": wheel["version"],
                "files": wheel["files"],
            }),
            wheel_deps = [known[dep] for dep in wheel["deps"]],
        )
    extras = {
        name: (["headers"] if LAYOUTS[name].headers else []) + LAYOUTS[name].files.keys()
        for name in own
        if name in LAYOUTS
    }
    hub_repository(name = hub.name, extras = extras, is_testonly = hub.testonly, wheels = own)
    return known

def _python_impl(module_ctx):
    local_python(name = "local_python")
    debian_packages(
        name = "debian_python",
        # What is installed for the user never reaches a target by accident.
        arrange = "sed -i 's/^ENABLE_USER_SITE = None/ENABLE_USER_SITE = False/' usr/lib/python3.11/site.py",
        build_file = Label("//third_party/python:debian.BUILD"),
        packages = Label("//third_party/python:debian.json"),
        programs = ["usr/bin/python3.11"],
    )
    known = {}

    # Dependencies first: the hub of a dependent stands on one of ours.
    for module in reversed(module_ctx.modules):
        for hub in module.tags.hub:
            if hub.name in known:
                fail("Two hubs of wheels are named %s." % hub.name)
            known[hub.name] = _define_hub(module_ctx, hub, known.get(hub.on, {}))

_hub = tag_class(
    doc = "A set of wheels under one name.",
    attrs = {
        "locks": attr.label_list(doc = "Locks whose wheels the hub has."),
        "name": attr.string(mandatory = True),
        "on": attr.string(doc = "An earlier hub, whose wheels the wheels of this one may import."),
        "testonly": attr.bool(doc = "Whether only tests may use the wheels."),
        "torch_locks": attr.label_keyed_string_dict(
            doc = "Locks of which one is used: label to the name that $PTERON_TORCH chooses it by.",
        ),
    },
)

python = module_extension(
    implementation = _python_impl,
    doc = "The machine's Python and hubs of wheels; see the top of this file.",
    tag_classes = {"hub": _hub},
)
