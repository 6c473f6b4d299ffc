"""How pytest-xdist shares out the checks: those of a case to one worker, and one that kills its worker only once."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling

from .plugin import scope


class CaseScheduling(LoadScopeScheduling):
    """By case; a check during which a worker died has its answer, and is not given to the next worker."""

    _removing = False

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Take back the work of a worker that died or is done, but for the check that it died of."""
        self._removing = True
        crashed = super().remove_node(node)
        self._removing = False
        for name, unit in list(self.workqueue.items()):
            if crashed in unit:
                unit[crashed] = True
            if all(unit.values()):
                del self.workqueue[name]
        for other in list(self.assigned_work):
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        # A worker that takes the place of another has nothing to choose from until it has collected.
        if not self._removing and node in self.registered_collections:
            super()._reschedule(node)
