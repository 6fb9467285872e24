"""phaseledger: decide between aggregated, chunked and disaggregated prefill/decode on a declared request cohort."""

__version__ = "0.1.0"
