from minikubelet.cli.table import Table, plain


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    table = Table(
        ("NAME", "STATUS", "MESSAGE"),
        (("a", "Running", ""), ("longer-name", "Error", "first line\n  second line " + "x" * 300)),
    )
    assert plain(table) == (
        "NAME          STATUS    MESSAGE\n"
        "a             Running\n"
        "longer-name   Error     first line; second line " + "x" * 300 + "\n"
    )


def test_no_rows_leave_the_head() -> None:
    assert plain(Table(("A", "B"), ())) == "A   B\n"
