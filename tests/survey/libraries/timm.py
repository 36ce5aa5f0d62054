"""`timm`: of each of its families the smallest."""

from tests.survey.libraries.recipe import Models, Recipe, each, image


def _model(name: str) -> Recipe:
    import timm

    module = timm.create_model(name, num_classes=10).eval()
    return Recipe(module, (image(1, *module.default_cfg["input_size"]),))


MODELS: Models = each(
    """
    halonet_h1 mobileone_s1 cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32
    convnext_zepto_rms cpubone_nano crossvit_tiny_240 csatv2 cs3darknet_focus_s cspnext_tiny
    davit_tiny deit_tiny_patch16_224 densenet121 dla46x_c dpn48b edgenext_xx_small
    efficientformer_l1 efficientformerv2_s0 mobilenetv2_035 efficientnet_b0 efficientvim_m1
    efficientvit_b0 efficientvit_m0 vit_tiny_patch16_dinov3_qkvb fasternet_t0 fastvit_t8
    focalnet_tiny_srf gcvit_xxtiny ghostnet_050 hardcorenas_b hgnetv2_b0 hiera_tiny_224
    hrnet_w18_small iformer_t inception_next_atto inception_v3 inception_v4 lcnetv2_small
    levit_128s lowformer_b0 mambaout_femto maxvit_pico_rw_256 poolformerv2_s12 gmlp_ti16_224
    mixer_s32_224 mobilenetv3_small_050 mobilenetv4_conv_small mobilevit_xxs mvitv2_tiny
    nest_tiny nextvit_small nf_regnet_b0 pit_ti_224 pvt_v2_b0 rdnet_tiny regnetx_002
    repghostnet_050 repvit_m1 res2next50 resnest14d resnet10t resnetv2_18 rexnet_100 selecsls42
    legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs
    swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 swinv2_cr_tiny_224 tiny_vit_5m_224
    tnt_s_legacy_patch16_224 tresnet_m twins_svt_small visformer_tiny vit_tiny_patch16_224
    vit_tiny_r_s16_p8_224 vit_srelpos_small_patch16_224 vitamin_small_224 volo_d1_224
    ese_vovnet19b_slim_dw legacy_xception xception41p xcit_nano_12_p8_224
    """,
    _model,
)
