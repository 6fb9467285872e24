"""The request traces of the SplitwiseSim simulator: CSV with an arrival in seconds and two token counts per request.

The simulator knows one type of request, 2 (text generation). A batch size above 1 is said to stand for requests that were batched before
they arrived, and the simulator itself counts their cache but not their computation, so such a row is not read as any number of requests.
"""

from pipelines.traces import faults
from pipelines.traces.csv_format import CsvColumns, CsvFormat, Only

_TEXT_GENERATION = 2

SPLITWISE_SIM = CsvFormat(
    name="splitwise-sim",
    columns=CsvColumns(
        arrival="arrival_timestamp",
        unit="s",
        prompt_tokens="prompt_size",
        output_tokens="token_size",
        only=(
            Only("request_type", _TEXT_GENERATION, otherwise=faults.OTHER_REQUEST),
            Only("batch_size", 1, otherwise=faults.BATCHED),
        ),
    ),
)
