"""Programs in Ray: over the rows of a dataset, and behind HTTP.

    import pteron.ray
    import ray
    from ray import serve

    dataset.map_batches(pteron.ray.Predictor("model.pte"), batch_size=32)
    serve.run(pteron.ray.deployment("model.pte"))

Needs `pip install 'pteron[ray]'`. docs/ray.md describes both.
"""

from typing import Any

from pteron.ray.predictor import Predictor as Predictor

__all__ = ["Predictor", "deployment", "text_deployment"]


def deployment(*args: Any, **options: Any) -> Any:
    """`pteron.ray.serving.deployment`, which imports Ray Serve."""
    from pteron.ray import serving

    return serving.deployment(*args, **options)


def text_deployment(*args: Any, **options: Any) -> Any:
    """`pteron.ray.serving.text_deployment`, which imports Ray Serve."""
    from pteron.ray import serving

    return serving.text_deployment(*args, **options)
