"""Collectives of processes on several machines, and messages between two: MPI's nonblocking calls.

Every method is a program (see progress.py): it starts a request and yields until `Test` says that
it is complete. Tensors are flat and contiguous; MPI reads and writes their memory itself.
"""

from typing import Any

import flambeau

from .reduce_ops import ReduceOp, combine, finish, kind_of

__all__ = ["Messages"]

_KINDS = {
    flambeau.uint8: "UINT8_T",
    flambeau.int8: "INT8_T",
    flambeau.int16: "INT16_T",
    flambeau.int32: "INT32_T",
    flambeau.int64: "INT64_T",
    flambeau.uint16: "UINT16_T",
    flambeau.uint32: "UINT32_T",
    flambeau.uint64: "UINT64_T",
    flambeau.bool: "C_BOOL",
    flambeau.float16: "UINT16_T",
    flambeau.bfloat16: "UINT16_T",
    flambeau.float32: "FLOAT",
    flambeau.float64: "DOUBLE",
    flambeau.complex64: "C_FLOAT_COMPLEX",
    flambeau.complex128: "C_DOUBLE_COMPLEX",
}
_OPS = {"SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD"}
_OPS |= {name: name for name in ("MIN", "MAX", "BAND", "BOR", "BXOR")}
_LOGIC = {"SUM": "LOR", "MAX": "LOR", "BOR": "LOR", "AVG": "LOR", "PREMUL_SUM": "LOR"}
_LOGIC |= {"PRODUCT": "LAND", "MIN": "LAND", "BAND": "LAND", "BXOR": "LXOR"}
_own_ops: dict[Any, Any] = {}  # of half precision


class Messages:
    """The collectives of one communicator."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.mpi, self.comm = mpi, comm
        self.size, self.index = comm.size, comm.rank

    # -- MPI's view of tensors and ops -------------------------------------------------------------
    def raw(self, flat):
        """The bytes of a tensor."""
        return [self.memory(flat), self.mpi.BYTE]

    def typed(self, flat):
        """Its elements."""
        return [self.memory(flat), getattr(self.mpi, _KINDS[flat.dtype])]

    def memory(self, flat):
        return self.mpi.buffer.fromaddress(flat.data_ptr(), flat.numel() * flat.dtype.itemsize)

    def op(self, op, dtype):
        name = kind_of(op).name
        if dtype in (flambeau.float16, flambeau.bfloat16):
            return self.half_op(op, dtype)
        return getattr(self.mpi, (_LOGIC if dtype is flambeau.bool else _OPS)[name])

    def half_op(self, op, dtype):
        """MPI knows no half precision: it hands us two pieces of memory."""
        kind = ReduceOp.SUM if kind_of(op).name in ("AVG", "PREMUL_SUM") else kind_of(op)
        if (kind, dtype) not in _own_ops:
            reduce = combine(kind)

            def function(source, total, _):
                reduce(
                    flambeau.frombuffer(total, dtype=dtype),
                    flambeau.frombuffer(source, dtype=dtype),
                )

            _own_ops[kind, dtype] = self.mpi.Op.Create(function, commute=True)
        return _own_ops[kind, dtype]

    @staticmethod
    def complete(request):
        while not request.Test():
            yield None

    # -- collectives -----------------------------------------------------------------------------
    def barrier(self):
        """Until everybody is here."""
        yield from self.complete(self.comm.Ibarrier())

    def all_reduce(self, flat, op):
        """Everybody gets the reduction of all, in place."""
        request = self.comm.Iallreduce(self.mpi.IN_PLACE, self.typed(flat), self.op(op, flat.dtype))
        yield from self.complete(request)
        finish(op, flat, self.size)

    def broadcast(self, flat, root):
        """Everybody gets what root has."""
        yield from self.complete(self.comm.Ibcast(self.raw(flat), root))

    def reduce(self, flat, root, op):
        """Root gets the reduction of all, in place."""
        op_, here = self.op(op, flat.dtype), self.typed(flat)
        if self.index == root:
            yield from self.complete(self.comm.Ireduce(self.mpi.IN_PLACE, here, op_, root))
            finish(op, flat, self.size)
        else:
            yield from self.complete(self.comm.Ireduce(here, None, op_, root))

    def all_gather(self, outs, flat):
        """outs[r] becomes what member r brings."""
        whole = flambeau.empty(self.size * flat.numel(), dtype=flat.dtype)
        yield from self.complete(self.comm.Iallgather(self.raw(flat), self.raw(whole)))
        for out, part in zip(outs, whole.chunk(self.size)):
            out.copy_(part)

    def gather(self, outs, flat, root):
        """The same, for root only."""
        if self.index != root:
            yield from self.complete(self.comm.Igather(self.raw(flat), None, root))
            return
        whole = flambeau.empty(self.size * flat.numel(), dtype=flat.dtype)
        yield from self.complete(self.comm.Igather(self.raw(flat), self.raw(whole), root))
        for out, part in zip(outs, whole.chunk(self.size)):
            out.copy_(part)

    def scatter(self, out, parts, root):
        """Member r gets parts[r] of root."""
        whole = None if self.index != root else self.raw(flambeau.cat(list(parts)))
        yield from self.complete(self.comm.Iscatter(whole, self.raw(out), root))

    def reduce_scatter(self, out, parts, op):
        """Member r gets the reduction of everybody's parts[r]."""
        whole = flambeau.cat(list(parts))
        request = self.comm.Ireduce_scatter_block(
            self.typed(whole), self.typed(out), self.op(op, out.dtype)
        )
        yield from self.complete(request)
        finish(op, out, self.size)

    def all_to_all(self, outs, parts):
        """outs[s] becomes parts[me] of member s; they may differ in length."""
        itemsize = outs[0].dtype.itemsize

        def spread(tensors):
            whole = flambeau.cat(list(tensors))
            counts = [t.numel() * itemsize for t in tensors]
            starts = [sum(counts[:k]) for k in range(len(counts))]
            return whole, [self.memory(whole), (counts, starts), self.mpi.BYTE]

        _sent, source = spread(parts)
        received, target = spread(outs)
        yield from self.complete(self.comm.Ialltoallv(source, target))
        for out, part in zip(outs, received.split([t.numel() for t in outs])):
            out.copy_(part)

    # -- messages between two ----------------------------------------------------------------------
    def send(self, flat, target, tag):
        """To another member."""
        yield from self.complete(self.comm.Isend(self.raw(flat), target, tag))

    def receive(self, flat, source, tag, tell):
        """From another member, or from anybody (None); tell(member) says from whom it came."""
        status = self.mpi.Status()
        whom = self.mpi.ANY_SOURCE if source is None else source
        request = self.comm.Irecv(self.raw(flat), whom, tag)
        while not request.Test(status):
            yield source
        tell(status.Get_source())
