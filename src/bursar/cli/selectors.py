"""Label selectors as options have them."""

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.core.model.selectors.selector import Selector, SelectorError
from bursar.core.model.selectors.text import parse_selector


def selector_from(text: str, option: str) -> Selector:
    """The selector that an option has as text. Raises `BadInputError`, which names the option."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise BadInputError(f"{option}: {printable(str(error))}") from None
