"""Request logs of every known format -> the requests frame -> prompt buckets, strata and arrival statistics."""

from pipelines.traces.freeze import frozen_cohort, inputs_frame, read_cohort_requests
from pipelines.traces.log import Log, LogOptions, read_log
from pipelines.traces.registry import FORMATS
from pipelines.traces.requests import CohortRequests, requests_sha256
from pipelines.traces.workload import (
    bucket_frame,
    bucket_labels,
    duration_s,
    output_stratum_frame,
    stratum_frame,
    window_frame,
)

__all__ = [
    "FORMATS",
    "CohortRequests",
    "Log",
    "LogOptions",
    "bucket_frame",
    "bucket_labels",
    "duration_s",
    "frozen_cohort",
    "inputs_frame",
    "output_stratum_frame",
    "read_cohort_requests",
    "read_log",
    "requests_sha256",
    "stratum_frame",
    "window_frame",
]
