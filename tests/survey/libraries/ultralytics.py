"""`ultralytics`: its networks, by the files that describe them; boxes come as it exports them."""

from tests.survey.libraries.recipe import Models, Recipe, each, image


def _model(name: str) -> Recipe:
    from ultralytics.nn import tasks

    kind, size = tasks.DetectionModel, 64
    for ending, found in (
        ("-seg", tasks.SegmentationModel),
        ("-pose", tasks.PoseModel),
        ("-cls", tasks.ClassificationModel),
        ("-obb", tasks.OBBModel),
        ("rtdetr-l", tasks.RTDETRDetectionModel),
    ):
        if name.endswith(ending):
            kind = found
    module = kind(f"{name}.yaml", verbose=False).eval()
    for part in module.modules():
        # As its exporter sets it: nothing is kept from call to call.
        if hasattr(part, "export"):
            part.export, part.format = True, "torchscript"
    return Recipe(module, (image(1, 3, size, size),))


MODELS: Models = each(
    """
    yolov5n yolov8n yolov8n-seg yolov8n-pose yolov8n-cls yolov8n-obb yolov9t yolov10n yolo11n
    yolo12n yolo26n rtdetr-l
    """,
    _model,
)
