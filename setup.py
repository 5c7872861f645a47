"""Builds the native operators; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "dragoman/engine/onnx/native"


class BuildLibrary(build_ext):
    """A library for ONNX Runtime, no module: its name keeps Python from taking it for one."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.ort.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return list(ext.export_symbols)


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            f"{FOLDER.replace('/', '.')}.operators",
            [f"{FOLDER}/operators.c"],
            depends=[str(header) for header in Path(FOLDER).glob("*.h")],
            # Only what says so is fused, so that sums are the same bits on every CPU.
            extra_compile_args=["-O2", "-g0", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,  # an installation without them is slower, and else the same
        )
    ],
)
