"""Features as a whole: their options and parts lie beside each other, and each can be taken away."""

from __future__ import annotations

import msgspec

from engine.core.model import Manifest
from engine.features import features
from engine.plan.request import Request, request_options


def test_no_two_features_share_an_option_or_a_key() -> None:
    options = [option.name for option in request_options()]
    keys = [*Manifest.__slots__, *(name for feature in features() for name in feature.part.__struct_fields__)]
    assert len(set(options)) == len(options) and len(set(keys)) == len(keys)
    assert not {*msgspec.structs.asdict(Request())} & {feature.name for feature in features()}
