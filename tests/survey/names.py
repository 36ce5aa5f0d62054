"""Architectures that the survey takes if it is asked for nothing else.

Those that `transformers` 5.23 has, that this folder can build and torch.export took, less near
relatives of others.
"""

ARCHITECTURES = tuple(
    """
    afmoe aimv2 albert altclip apertus arcee aria audio-spectrogram-transformer audioflamingo3
    bart beit bert big_bird bigbird_pegasus biogpt bit bitnet blenderbot blip bloom bridgetower
    bros canine clip clipseg codegen cohere cohere2 convbert convnext convnextv2 cpmant ctrl cvt
    dac data2vec-audio data2vec-vision deberta deberta-v2 deepseek_v2 deepseek_v3 deepseek_vl
    diffllama dinov2 dinov3_convnext dinov3_vit distilbert doge dpr dpt electra ernie4_5
    ernie4_5_moe eurobert exaone4 falcon falcon_mamba flaubert flava flex_olmo florence2 fnet
    focalnet fuyu gemma gemma2 gemma3 git glm glm4 glm4_moe glpn got_ocr2 gpt2 gpt_bigcode
    gpt_neo gpt_neox gpt_oss gptj granite granitemoe granitemoeshared groupvit helium hgnet_v2
    hiera hubert hunyuan_v1_dense ibert idefics2 idefics3 ijepa imagegpt internvl jamba jetmoe
    kimi_linear kosmos-2.5 layoutlm layoutlmv3 levit lfm2 lfm2_vl lilt llama llama4 llava
    llava_next llava_onevision luke m2m_100 mamba mamba2 marian markuplm mgp-str minicpm3
    minimax mistral mixtral mlcd mllama mobilebert mobilenet_v1 mobilenet_v2 mobilevit
    mobilevitv2 modernbert modernbert-decoder modernvbert moonshine moshi mpnet mpt mra mt5
    nanochat nemotron nemotron_h nllb-moe nomic_bert nystromformer olmo olmo2 olmo3 olmoe opt
    ovis2 owlv2 owlvit paligemma parakeet_ctc patchtsmixer patchtst pegasus pegasus_x persimmon
    phi phi3 phi4_multimodal phimoe pixtral poolformer prophetnet pvt pvt_v2 qwen2 qwen2_moe
    qwen3 qwen3_moe qwen3_next qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe recurrent_gemma
    reformer regnet rembert resnet rf_detr roberta roc_bert roformer rwkv sam2 seamless_m4t
    seed_oss segformer sew-d siglip smollm3 smolvlm splinter squeezebert stablelm starcoder2
    swiftformer swin swin2sr swinv2 t5 t5gemma t5gemma2 tapas textnet timesformer unispeech
    univnet video_llava videomae visual_bert vit vit_mae vit_msn vitdet vivit vjepa2 voxtral
    wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm whisper xclip xglm xlm xlm-roberta xlnet
    xmod yolos yoso
    """.split()
)
