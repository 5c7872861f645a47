"""Only a model that Firefox lists is fetched."""

from pathlib import Path

import pytest

from dragoman.convert import firefox
from dragoman.errors import BundleError


def test_a_pair_that_firefox_does_not_have_is_refused_before_anything_is_fetched(
    tmp_path: Path, monkeypatch
) -> None:
    fetched: list[str] = []

    def settings(address: str) -> dict[str, object]:
        fetched.append(address)
        raise BundleError("the settings were requested.")

    listed = [firefox.FirefoxModel("de", "en", "1.0", ())]
    monkeypatch.setattr(firefox, "firefox_models", lambda: listed)
    monkeypatch.setattr(firefox, "_json", settings)
    with pytest.raises(BundleError, match="has no model firefox/de-xx"):
        firefox.download("firefox/de-xx", tmp_path)
    assert not fetched
    with pytest.raises(BundleError, match="settings were requested"):
        firefox.download("firefox/de-en", tmp_path)
