"""Tasks of one worker share the models of AWS's services, and nothing else."""

from __future__ import annotations

from botocore.loaders import JSONFileLoader

from spark_jobs.aws_session import task_session


def test_a_second_task_reads_no_model(monkeypatch):
    """Only the first client of a worker reads the files of SQS."""
    task_session().client("sqs", region_name="eu-central-1")
    read = []
    load_file = JSONFileLoader.load_file
    monkeypatch.setattr(
        JSONFileLoader, "load_file", lambda self, path: read.append(path) or load_file(self, path)
    )

    task_session().client("sqs", region_name="eu-central-1")

    assert read == []


def test_each_task_looks_its_credentials_up(monkeypatch):
    """Credentials that were replaced between two tasks are those of the later one."""
    found = []
    for key in ("AKIDONE", "AKIDTWO"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        found.append(task_session().get_credentials().access_key)

    assert found == ["AKIDONE", "AKIDTWO"]


def test_a_folder_of_models_is_respected(monkeypatch, tmp_path):
    """AWS_DATA_PATH adds models of your own, also after a task without it."""
    task_session()
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    (tmp_path / "ours" / "2026-01-01").mkdir(parents=True)
    (tmp_path / "ours" / "2026-01-01" / "service-2.json").write_text("{}")

    assert "ours" in task_session()._session.get_available_services()
