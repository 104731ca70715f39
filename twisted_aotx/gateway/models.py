"""
`GET /v1/models` and `GET /v1/models/{id}` (`http.md` §4).

An alias is a model of the caller when it is granted to it, configured, and its role is
in the device's information now; nothing is remembered for these lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from twisted_aotx.gateway.answers import Answer
from twisted_aotx.gateway.problems import ProblemCode, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twisted_aotx.gateway.resource import Call
    from twisted_aotx.gateway.settings import GatewaySettings, ModelAlias, Principal
    from twisted_aotx.wire.info import Information, ModelRow


@attrs.frozen
class Model:
    """
    One alias with the row that serves it.
    """

    alias: ModelAlias
    row: ModelRow


def models_of(
    settings: GatewaySettings, principal: Principal, information: Information
) -> Iterator[Model]:
    """
    The models of *principal*, in the order of the configuration.
    """
    rows = {row.role: row for row in information.models}
    for alias in settings.models:
        row = rows.get(alias.role)
        if row is not None and alias.alias in principal.models:
            yield Model(alias, row)


async def list_models(call: Call) -> Answer:
    """
    Every model of the caller.
    """
    data = [_model(model) for model in await _current(call)]
    return Answer(body={"object": "list", "data": data})


async def get_model(call: Call) -> Answer:
    """
    The model whose alias the path names; it may hold slashes.
    """
    for model in await _current(call):
        if model.alias.alias == call.args["id"]:
            return Answer(body=_model(model))
    raise refusal(ProblemCode.MODEL_NOT_FOUND, "model")


async def _current(call: Call) -> list[Model]:
    information = (await call.information(fresh=True)).information
    return list(models_of(call.settings, call.principal, information))


def _model(model: Model) -> dict[str, object]:
    return {
        "id": model.alias.alias,
        "object": "model",
        "created": model.alias.published_at,
        "owned_by": "operator",
        "automatic_memory": False,
    }
