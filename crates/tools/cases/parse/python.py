"""mod doc"""
import a.b as c
from x import y
K = 1
@dec
class P(Q):
    """doc"""
    z: int = 1
    # c
    async def f(self, a: int) -> str:
        "d"
        local = 1
        return self.g(a) + h(1)

def top(a,
        b):
    def inner(): pass
