"""Ask whether the host can run the new image, before anything of the old one is lost."""

from __future__ import annotations

from dataclasses import replace

from conductor.api_db.models import RequestSpecRecord
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.scheduler import rebuild_check
from conductor.workflows.flow import Result, Retry, Step, Work
from conductor.workflows.steps import instance_rows


class CheckRebuild(Step):
    """The same image fits where it fits already; another one is judged by the filters that look at images."""

    title = "Check the host"
    lane = "Scheduler"
    event = "rebuild_server"

    def execute(self, work: Work) -> Result:
        instance = instance_rows.read(work)
        values = work.inputs["values"]
        image = ImageSpec(**(values.get("volume_image") or values["image"]))
        if image.image_id == instance.image.get("image_id"):
            return {"is_asked": False}
        spec = RequestSpec(
            project_id=instance.project_id,
            user_id=instance.user_id,
            flavor=FlavorSpec(**instance.flavor),
            image=image,
            scheduler_hints=instance.scheduler_hints,
        )
        rebuild_check.require_fit(spec, instance.host or "")
        return {"is_asked": True}


class KeepRebuiltSpec(Step):
    """Later moves of the instance go by the new image. From here there is no way back: the disks are new."""

    title = "Keep the new image"
    retry = Retry(tries=None)
    lane = "Cell conductor"

    def execute(self, work: Work) -> Result:
        image = ImageSpec(**work.inputs["values"]["image"])
        with work.fenced("default"):
            record = RequestSpecRecord.objects.select_for_update().filter(instance_uuid=work.instance_uuid).first()
            if record is not None:
                spec = replace(RequestSpec.from_json(record.spec), image=image)
                RequestSpecRecord.objects.filter(pk=record.pk).update(spec=spec.to_json())
        return {}
