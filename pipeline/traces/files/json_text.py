"""JSON whose texts can be written again.

JSON allows half of a surrogate pair, an escape from D800 to DFFF that stands alone, and Python
reads it. No file of text can hold it, so that it fails later, far from its line. Here it is as
wrong as a syntax error.
"""

import json
import re
from typing import Any, Final

_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_HALF_BYTES: Final = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


def loads(text: str | bytes) -> Any:
    """Return the value of a text; raise ValueError if it is no JSON, or has half a surrogate."""
    value = json.loads(text)
    require_text(value, text)
    return value


def require_text(value: Any, source: str | bytes) -> None:
    """Raise ValueError if a value of JSON has half of a surrogate pair; `source` is its text."""
    halves = _HALF_BYTES.search(source) if isinstance(source, bytes) else _HALF.search(source)
    if halves:  # perhaps of a whole pair
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("half of a surrogate pair") from error
