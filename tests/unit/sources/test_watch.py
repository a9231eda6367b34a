from pathlib import Path

import pytest

from minikubelet.sources.watch import Watch, steps

pytestmark = pytest.mark.anyio


def test_the_steps_of_a_path_go_through_its_links(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to("real")
    found, end = steps(f"{tmp_path}/link/../link/x")
    assert end == ""
    assert found[-1] == (str(real), "x")
    assert steps(f"{tmp_path}/link")[1] == str(real)
    assert (str(tmp_path), "link") in found
    assert (str(tmp_path), "real") in found


def test_a_link_that_leads_to_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    _, end = steps(str(tmp_path / "a"))
    assert end == ""


async def test_silence_is_told_as_none(tmp_path: Path) -> None:
    with Watch() as watch:
        watch.cover(str(tmp_path), ())
        assert await watch.wait(0.01) is None


@pytest.mark.parametrize("name", [".x.swp", "a.yaml~", "#a#"])
async def test_events_about_left_out_names_ask_for_nothing(tmp_path: Path, name: str) -> None:
    with Watch() as watch:
        watch.cover(str(tmp_path), ())
        (tmp_path / name).touch()
        assert await watch.wait(0.02) is None


async def test_neighbours_of_a_missing_path_ask_for_nothing(tmp_path: Path) -> None:
    with Watch() as watch:
        watch.cover(str(tmp_path / "m" / "n"), ())
        (tmp_path / "other").mkdir()
        assert await watch.wait(0.02) is None
        (tmp_path / "m").mkdir()
        assert await watch.wait(5) == frozenset({str(tmp_path / "m")})


async def test_queued_events_are_one(tmp_path: Path) -> None:
    with Watch() as watch:
        watch.cover(str(tmp_path), ())
        for name in ("a", "b", "c"):
            (tmp_path / name).touch()
        assert await watch.wait(5) == frozenset(str(tmp_path / name) for name in ("a", "b", "c"))
        assert await watch.wait(0.01) is None


async def test_what_is_no_longer_covered_is_no_longer_watched(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with Watch() as watch:
        watch.cover(str(tmp_path / "a"), ())
        watch.cover(str(tmp_path / "b"), ())
        (tmp_path / "a" / "x").touch()
        assert await watch.wait(0.02) is None
