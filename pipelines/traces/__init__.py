"""Request logs of every known format -> the requests frame -> prompt buckets, strata and arrival statistics."""

from pipelines.traces.log import RequestLog, read_requests, requests_sha256
from pipelines.traces.registry import FORMATS
from pipelines.traces.workload import bucket_frame, bucket_labels, duration_s, stratum_frame

__all__ = [
    "FORMATS",
    "RequestLog",
    "bucket_frame",
    "bucket_labels",
    "duration_s",
    "read_requests",
    "requests_sha256",
    "stratum_frame",
]
