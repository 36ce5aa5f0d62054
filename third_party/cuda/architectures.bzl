"""The build setting for GPU architectures."""

CudaArchitecturesInfo = provider(
    doc = "What device code is compiled for.",
    fields = {"gencode": "List of nvcc's -gencode options."},
)

# Architectures of nvcc 13.0. Suffix "a" means exactly this architecture, "f" its family.
_SUPPORTED = [
    "75",
    "80",
    "86",
    "87",
    "88",
    "89",
    "90",
    "90a",
    "100",
    "100a",
    "100f",
    "103",
    "103a",
    "103f",
    "110",
    "110a",
    "110f",
    "120",
    "120a",
    "120f",
    "121",
    "121a",
    "121f",
]

def parse_architectures(names):
    """Turns names of architectures into options of nvcc.

    Args:
        names: list of "sm_NN" (machine code for that processor) and "compute_NN" (PTX, which the
            driver compiles for later processors).

    Returns:
        the options, and an error text; one of them is None.
    """
    gencode = []
    wrong = []
    for name in names:
        kind, _, number = name.partition("_")
        if kind not in ["sm", "compute"] or number not in _SUPPORTED:
            wrong.append(name)
        else:
            gencode.append("-gencode=arch=compute_%s,code=%s" % (number, name))
    if wrong or not names:
        return None, (
            "CUDA architectures: found %s. Expected one or more of sm_NN (machine code) and " +
            "compute_NN (PTX), separated by commas, with NN one of %s. Example: " +
            "--@pteron//third_party/cuda:architectures=sm_80,sm_90,compute_90"
        ) % (", ".join([repr(name) for name in wrong]) or "none", ", ".join(_SUPPORTED))
    return gencode, None

def _cuda_architectures_impl(ctx):
    gencode, error = parse_architectures(ctx.build_setting_value)
    if error:
        fail(error)
    return [CudaArchitecturesInfo(gencode = gencode)]

cuda_architectures = rule(
    implementation = _cuda_architectures_impl,
    doc = "A flag with a list of architectures; see parse_architectures.",
    build_setting = config.string_list(flag = True),
)
