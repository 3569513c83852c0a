"""`ragstow rbac`: the rights that the other commands need, as YAML to apply."""

from __future__ import annotations

import click

from ragstow.errors import UsageError

EXAMPLES = """\b
Examples:
  ragstow rbac read | kubectl apply -f -                        for group ragstow-read
  ragstow rbac read --subject user:alice | kubectl apply -f -
  ragstow rbac apply --subject serviceaccount:ci/deployer -n rag   workloads only in namespace rag
"""


@click.command(epilog=EXAMPLES)
@click.argument("level", type=click.Choice(["read", "verify", "apply"]))
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="KIND:NAME",
    help="Who gets the role: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME (default: group:ragstow-LEVEL).",
)
@click.option("-n", "--namespace", metavar="NAME", help="With apply or --cap-test: workloads may be written only there.")
@click.option("--cap-test", is_flag=True, help="With verify: also for `ragstow verify --cap-test`, which creates pods.")
def command(level: str, subjects: tuple[str, ...], namespace: str | None, cap_test: bool) -> None:
    """Prints the least-privilege role for reading, verifying or applying, and its binding, as YAML.

    read: inspect, plan, simulate, lint, diagnose, capture. verify: exec and port-forward too. apply: what a plan changes, too.
    """
    import yaml

    from ragstow.live import rbac

    found = []
    for text in subjects or (f"group:ragstow-{level}",):
        made = rbac.subject(text)
        if made is None:
            raise UsageError(
                "subject-invalid", f"--subject {text}: nobody", hint="user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME"
            )
        found.append(made)
    if cap_test and level == "read":
        raise UsageError("cap-test-reads", "rbac read cannot hold the cap test, which creates pods", hint="ragstow rbac verify")
    if namespace is not None and level != "apply" and not cap_test:
        raise UsageError("namespace-useless", f"rbac {level} needs the whole cluster: holders of GPUs may be anywhere")
    chosen = next(item for item in rbac.LEVELS if item == level)
    documents = rbac.documents(chosen, subjects=found, namespace=namespace, cap_test=cap_test)
    click.echo("---\n".join(yaml.safe_dump(item, sort_keys=False, width=120) for item in documents), nl=False)
