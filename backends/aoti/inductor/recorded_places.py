"""Digests of what lowering changes of torch 2.14: how it is used, and what is in it.

Written by `recognition.record`, for the newest of `SUPPORTED_RELEASES`.
"""

RECORDED = """\
torch._C: _conv_determine_backend_memory_format=a69a6ecf/e3b0c442
torch._inductor.async_compile.AsyncCompile: use_process_pool=d172e08b/b4a5cfd9
torch._inductor.codecache.AotCodeCompiler: compile=9cea5eb0/5d91c9ea
torch._inductor.codegen.common.KernelTemplate: _template_from_string=e5385d55/0a6374b2
torch._inductor.codegen.cpp.CppKernel: cache_dtype_convert=223e8f86/ea4921b6
  codegen_loops_impl=d005be01/7282cc99 decide_parallel_depth=66e29c6b/b46441ec
  device_assert_async=d1a62110/30d0d264
torch._inductor.codegen.cpp.CppKernelProxy: aggregate_reduction_buffers=8f394d24/975fd51c
torch._inductor.codegen.cpp.CppOverrides: floordiv=d4b100c7/31007bfa mod=d4b100c7/cb642770
  truncdiv=d4b100c7/266f99f8
torch._inductor.codegen.cpp.CppVecKernel: arange=631e2803/3c92d55e load=1b6ff0ad/527be5d5
torch._inductor.codegen.cpp.CppVecOverrides: _scalarize=a711f284/bbb9101c floordiv=d4b100c7/62f2df0a
  mod=2ef3a821/d6683923 remainder=d4b100c7/15207c70 truncdiv=d4b100c7/d47d181a
torch._inductor.codegen.cpp.WorkSharing: parallel=e30add06/a5262ac9
torch._inductor.codegen.cpp_gemm_template.CppGemmTemplate: _cache_blocking=6223075a/5309302e
  add_choices=211c648f/7e30de8b get_options=b3a2e76f/93b6a20c
torch._inductor.codegen.cpp_gemm_template: DataProcessorTemplateWrapper=909d561f/e3b0c442
  GEMM_TEMPLATE=e3b0c442/90885d46 create_micro_gemm=71efd802/88babbb7
torch._inductor.codegen.cpp_grouped_gemm_template: create_micro_gemm=71efd802/88babbb7
torch._inductor.codegen.cpp_micro_gemm.CppMicroGemm: codegen_define=d3407d50/30cf8fcc
torch._inductor.codegen.cpp_micro_gemm.CppMicroGemmFP32Vec: codegen_define=d3407d50/3f12eb97
torch._inductor.codegen.cpp_template.CppTemplate: generate=88ad9822/8e8a5dba
  index_counter=e3b0c442/e3b0c442
torch._inductor.codegen.cpp_template_kernel.CppTemplateKernel: render=e1f51429/1a93bd15
torch._inductor.codegen.cpp_template_kernel: parse_expr_with_index_symbols=0dc62c7f/4086c678
torch._inductor.codegen.cpp_wrapper_cpu.CppWrapperCpu: codegen_int_array_var=be53463e/62eb6df8
  codegen_while_loop=e5d383ca/9d18e1c0
torch._inductor.codegen.simd.CantSplit: __init__=b8938e30/d8a75f27
torch._inductor.codegen.triton.TritonScheduling: define_kernel=d8867ace/6d26d7f0
torch._inductor.codegen.wrapper.PythonWrapperCodegen:
  generate_and_run_autotune_block=3be8fd00/3aa2419e
torch._inductor.compile_fx: detect_fake_mode=26581567/921f7544
  fx_codegen_and_compile=b5de184b/e458de2c post_grad_passes=f61a8528/2d2de5c7
torch._inductor.compile_worker.subproc_pool: subprocess=e3b0c442/e3b0c442
torch._inductor.constant_folding.ConstantFolder: is_impure=738a2444/947f9d89
torch._inductor.cpu_vec_isa: valid_vec_isa_list=2cb03a0b/7a612929
torch._inductor.freezing: freezing_passes=3e5cd359/c16280f2
torch._inductor.fx_passes.binary_folding: binary_folding_init=2cb03a0b/ca3d0e08
torch._inductor.fx_passes.joint_graph.UniformValueConstantFolder:
  _add_peephole_patterns=3be8fd00/31f459a4 _deduce_value=738a2444/f3b5a047
torch._inductor.fx_passes.joint_graph: lazy_init=61f6c3b8/ed13d44c
  pointless_convert=22da7a5d/c009610c
torch._inductor.fx_passes.post_grad: mm_plus_mm=f4a4dada/1ec73152
  pointless_cumsum_replacement=8ff8e47b/7219a2e1
torch._inductor.fx_passes.reinplace: reinplace_inplaceable_ops_core=26951c65/3c9c6ae4
torch._inductor.graph.GraphLowering: call_function=5b9be87f/2c20f1ea
  create_deferred_runtime_asserts=27b7528f/261ff3d9 decide_layout_opt=441d0a41/dea4db60
  get_original_value_of_constant=83dfc7b6/00b8d163 init_wrapper_code=216da5cb/927d99d7
  run_node=095583ae/a537962f
torch._inductor.graph: is_same_tensor=ab941ebc/52d5b132
torch._inductor.index_propagation.IndexPropagation: propagate_sympy=e09590e9/d033404d
torch._inductor.ir.AssertScalar: codegen=ebe8eb0b/f2dbcbd8
torch._inductor.ir.ExternKernel: process_kernel=34b0949a/a257193a
torch._inductor.ir.Reduction: create=04bcc50e/f35899f5
torch._inductor.ir.ReinterpretView: make_loader=c8343832/71cfae32
torch._inductor.ir.Switch: create=536e9420/70384777
torch._inductor.ir.WhileLoop: create=b687eab9/aae1a740
torch._inductor.kernel.bmm: L=e3b0c442/e3b0c442 use_cpp_bmm_template=004da02d/1ff4ccf6
torch._inductor.kernel.flex.flex_attention: create_flex_decoding_kernel=dceae1ff/ad1d9caa
torch._inductor.lowering: div_mode=bbde837b/49fea738 var_mean_welford_=4a3b0617/9e8edc80
torch._inductor.pattern_matcher.PatternMatcherPass: apply=fcd3dd70/7a0c2a46
torch._inductor.runtime.hints.DeviceProperties: create=dcbf6fee/f38c61a1
torch._inductor.runtime.triton_helpers: set_driver_to_gpu=5d704f29/3cd4dc4e
torch._inductor.runtime.triton_heuristics.CachingAutotuner: run=9189e24e/47d84840
  save_gpu_kernel=99ef46a7/25907438
torch._inductor.scheduler.Scheduler: _codegen=0fd137ec/0e3c4ba7 codegen=43e77e75/d1902179
  create_backend=3d2ef159/c57ba949 fusable_weak_dep=0dcec7ff/037748cd
torch._inductor.select_algorithm.AlgorithmSelectorCache: __call__=ec1edc9b/2c5f30d7
torch._inductor.select_algorithm.TritonTemplate: index_counter=e3b0c442/e3b0c442
torch._subclasses.FakeTensor: __getitem__=36fcf3c5/e3b0c442 __invert__=05802801/e3b0c442
  contiguous=05802801/e3b0c442 copy_=05802801/e3b0c442
torch._subclasses.fake_tensor: init_gpu_context=0121c5e7/ef5d10d4
torch.utils._sympy.functions.Identity: _eval_evalf=1a28a933/dd0043fb
torch.utils._sympy.value_ranges.SymPyValueRangeAnalysis: eq=03388be2/e02456c8
"""
