"""The module extension for CUDA: the toolkit, cuBLAS, cuDNN and nvrtc, each fetched when it is needed.

    cuda = use_extension("//third_party/cuda:extensions.bzl", "cuda")
    use_repo(cuda, "cuda_cublas", "cuda_cudnn", "cuda_cudnn_frontend", "cuda_nvrtc", "cuda_toolkit")
"""

load(
    ":repositories.bzl",
    "CUBLAS_BUILD",
    "CUBLAS_LINKS",
    "CUDNN_BUILD",
    "CUDNN_FRONTEND_BUILD",
    "CUDNN_FRONTEND_LINKS",
    "CUDNN_LINKS",
    "NVRTC_BUILD",
    "NVRTC_LINKS",
    "TOOLKIT_BUILD",
    "TOOLKIT_LINKS",
    "nvidia_wheels",
)

_LOCK = Label("//third_party/cuda:lock.json")

_REPOSITORIES = {
    "cuda_cublas": struct(
        build = CUBLAS_BUILD,
        links = CUBLAS_LINKS,
        wheels = ["nvidia_cublas"],
    ),
    "cuda_cudnn": struct(
        build = CUDNN_BUILD,
        links = CUDNN_LINKS,
        wheels = ["nvidia_cudnn_cu13"],
    ),
    "cuda_cudnn_frontend": struct(
        build = CUDNN_FRONTEND_BUILD,
        links = CUDNN_FRONTEND_LINKS,
        wheels = ["nvidia_cudnn_frontend"],
    ),
    "cuda_nvrtc": struct(
        build = NVRTC_BUILD,
        links = NVRTC_LINKS,
        wheels = ["nvidia_cuda_nvrtc"],
    ),
    "cuda_toolkit": struct(
        build = TOOLKIT_BUILD,
        links = TOOLKIT_LINKS,
        wheels = [
            "nvidia_cuda_nvcc",
            "nvidia_cuda_cccl",
            "nvidia_cuda_crt",
            "nvidia_cuda_runtime",
            "nvidia_nvvm",
        ],
    ),
}

def _cuda_impl(module_ctx):
    lock = json.decode(module_ctx.read(_LOCK))["wheels"]
    for name, repository in _REPOSITORIES.items():
        nvidia_wheels(
            name = name,
            build = repository.build,
            links = repository.links,
            lock = "third_party/cuda/lock.json",
            wheels = [
                json.encode({
                    "name": wheel,
                    "version": lock[wheel]["version"],
                    "files": lock[wheel]["files"],
                })
                for wheel in repository.wheels
            ],
        )

cuda = module_extension(
    implementation = _cuda_impl,
    doc = "CUDA from NVIDIA's wheels; see the top of this file.",
)
