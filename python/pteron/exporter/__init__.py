"""`pteron.export`: lowers a module to a program file, in one call.

`methods` handles models and inputs, `backends` backend names and options, `exporter` the rest.
"""

from pteron.exir.garbage_collection import collected_rarely

with collected_rarely():  # modules of torch are most of the time of lowering a small model again
    from pteron.exporter.backends import partitioners_of as partitioners_of
    from pteron.exporter.errors import ExportError as ExportError
    from pteron.exporter.exporter import ExportReport as ExportReport
    from pteron.exporter.exporter import check_path as check_path
    from pteron.exporter.exporter import export as export
    from pteron.exporter.methods import example_of as example_of
    from pteron.exporter.methods import export_methods as export_methods
    from pteron.exporter.weights import update_weights as update_weights
