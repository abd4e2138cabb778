"""Who may write: the key in a request's Authorization header.

Without postponed annotations: FastAPI has to see the dependencies that are made within a function.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from autotune.db.keys import Key
from autotune.db.store import Store
from autotune.service.clock import now
from autotune.service.refusals import Forbidden, Unauthorized


def key_with(store: Store, scope: str) -> Callable[..., Key]:
    """A dependency that gives the key of a request, where it has the scope. Raises Unauthorized, Forbidden."""
    bearer = HTTPBearer(auto_error=False, description="a key that `autotune keys add` made")

    def key(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> Key:
        if given is None:
            raise Unauthorized("writing needs a key: Authorization: Bearer att_..., made by `autotune keys add`")
        found = store.key(given.credentials, now())
        if found is None:
            raise Unauthorized("the key is unknown, revoked or expired; `autotune keys list` shows those there are")
        if scope not in found.scopes:
            raise Forbidden(f"the key {found.prefix} lacks the scope {scope}")
        return found

    return key
