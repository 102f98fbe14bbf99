"""What facts about resources mean for their rows: one each time that a kind is attached, from then to how it was over."""

from __future__ import annotations

from ..events import records as r
from ..events.holding import SESSION_ENDED
from .rows import RESOURCES, Change
from .values import Values

Resource = r.ResourceAttached | r.ResourceReattached | r.ResourceExpired | r.ResourceReleased


def record(envelope: r.Envelope, body: Resource) -> Change:
    """The change of the resource's row. A handle may be what opens a door, so its digest alone is shown."""
    resource = Values(envelope, body.resource_id)
    row = resource.row
    if isinstance(body, r.ResourceAttached | r.ResourceReattached):
        row.update(
            turn=body.turn,
            step=body.step,
            status="attached",
            reattached=isinstance(body, r.ResourceReattached),
            attached_at_ms=envelope.at_ms,
            expires_at_ms=body.expires_at_ms,
            handle_digest=body.handle.digest.hex(),
        )
        resource.text("kind", body.kind)
        resource.text("release_by", body.release.name if body.release else None)
        return resource.change(RESOURCES, creates=True)
    row["ended_at_ms"] = envelope.at_ms
    row["status"] = "released"
    if isinstance(body, r.ResourceExpired):
        row["status"] = "ended" if body.reason == SESSION_ENDED else body.reason
        if body.failure is not None:
            resource.failure("failure", body.failure)
    return resource.change(RESOURCES)
