#!/usr/bin/env python3
"""Writes crates/llm/prices.csv from the package genai-prices (MIT), which has to be importable.

    pip install --target /tmp/prices genai-prices && PYTHONPATH=/tmp/prices setup/prices.py > crates/llm/prices.csv

Prices are dollars for a million tokens. Of prices that depend on the hour the dearest is taken; of those that begin on a day, the
newest that has begun. What a cache costs is the input's price where it is not said.
"""

import csv
import datetime
import re
import sys
from decimal import ROUND_UP, Decimal
from importlib.metadata import version

from genai_prices.data import providers
from genai_prices.types import ClauseAnd, ClauseOr, ClauseRegex, StartDateConstraint, TieredPrices

# The kind of provider in crates/llm/providers, by its name there.
KINDS = {
    "anthropic": "anthropic",
    "aws": "bedrock",
    "azure": "azure",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "google": "gemini",
    "groq": "groq",
    "mistral": "mistral",
    "openai": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "x-ai": "xai",
}
FIELDS = ["input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok"]


def clauses(match):
    """Each way in which a name is of this model, as (how, text); `dated` is a text with a date behind it."""
    if isinstance(match, ClauseOr):
        return [one for clause in match.or_ for one in clauses(clause)]
    if isinstance(match, ClauseAnd):
        return [one for clause in match.and_ if not isinstance(clause, ClauseRegex) for one in clauses(clause)]
    if isinstance(match, ClauseRegex):
        dated = re.fullmatch(r"\^((?:[\w/-]|\\\.)+?)(?:-|\[-@\])\\d(?:\{\d\}(?:-\\d\{2\})*\$)?", match.regex)
        assert dated, match
        return [("dated", dated[1].replace("\\", ""))]
    (how, text), *rest = vars(match).items()
    assert not rest and how in ("equals", "starts_with", "ends_with", "contains"), match
    return [(how, text)]


def in_force(prices, today):
    """The prices of today."""
    if not isinstance(prices, list):
        return prices
    begun = [
        one
        for one in prices
        if not isinstance(one.constraint, StartDateConstraint) or one.constraint.start_date <= today
    ]
    dated = [one for one in begun if isinstance(one.constraint, StartDateConstraint)]
    if dated:
        return max(dated, key=lambda one: one.constraint.start_date).prices
    return max(begun, key=lambda one: amounts(one.prices, 0)[3] or 0).prices


def amounts(prices, above):
    """What each field costs where the input is larger than this."""
    found = []
    for field in FIELDS:
        price = getattr(prices, field, None)
        if isinstance(price, TieredPrices):
            reached = [tier.price for tier in price.tiers if above >= tier.start]
            price = reached[-1] if reached else price.base
        found.append(price)
    return found


def cell(price):
    """Dollars with at most six decimals, rounded up."""
    rounded = Decimal(price).quantize(Decimal("0.000001"), ROUND_UP)
    return format(rounded.normalize() + 0, "f")


def row(prices, above):
    read, cached_read, cached_write, output = amounts(prices, above)
    read = read or 0
    cached_read = read if cached_read is None else cached_read
    cached_write = read if cached_write is None else cached_write
    return [cell(price or 0) for price in (read, cached_read, cached_write, output)]


def main():
    today = datetime.date.today()
    out = csv.writer(sys.stdout, lineterminator="\n")
    print(f"# genai-prices {version('genai-prices')}, written {today} by setup/prices.py; dollars for a million tokens")
    print("# kind,how,name,input,cached_read,cached_write,output,above,input,cached_read,cached_write,output")
    for provider in providers:
        kind = KINDS.get(provider.id)
        for model in provider.models if kind else []:
            prices = in_force(model.prices, today)
            tiers = [getattr(prices, field, None) for field in FIELDS]
            starts = [tier.start for price in tiers if isinstance(price, TieredPrices) for tier in price.tiers]
            cells = row(prices, 0)
            if starts:
                cells += [min(starts), *row(prices, max(starts))]
            for how, text in clauses(model.match):
                assert "," not in text and '"' not in text, text
                out.writerow([kind, how, text, *cells])


main()
