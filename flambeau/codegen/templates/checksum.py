"""CRC-32 of long blocks: sixty-four bytes at a time, by products of polynomials.

A checksum is the remainder of the data, taken as one polynomial, by that of CRC-32. Whatever comes
first may be replaced by something shorter with the same remainder: here everything but the last 64
bytes is folded into them, by carry-less products with x**544 and x**480 modulo the polynomial. The
caller works out the checksum of those 64 bytes (`serialization/checksums.py`).
"""

# x**(512 + 32) and x**(512 - 32) modulo the polynomial, the bits in the order that CRC-32 has
FAR, NEAR = 0x154442BD4, 0x1C6E41596
LANES = 4
VECTOR = "<2 x i64>"


def can_fold(features):
    """Does the processor have such products?"""
    return bool(features.get("pclmul"))


def fold_ir():
    """`fold(data, bytes, out)`: bytes is a multiple of 64; begins as a fresh checksum does."""
    loads = "\n".join(
        f"  %a{k} = getelementptr i8, ptr %data, i64 {16 * k}\n"
        f"  %s{k} = load {VECTOR}, ptr %a{k}, align 1"
        for k in range(LANES)
    )
    phis = "\n".join(
        f"  %x{k} = phi {VECTOR} [%{'first' if k == 0 else f's{k}'}, %entry], [%y{k}, %body]"
        for k in range(LANES)
    )
    steps = "\n".join(_step(k) for k in range(LANES))
    stores = "\n".join(
        f"  %o{k} = getelementptr i8, ptr %out, i64 {16 * k}\n"
        f"  store {VECTOR} %x{k}, ptr %o{k}, align 1"
        for k in range(LANES)
    )
    return f"""
declare {VECTOR} @llvm.x86.pclmulqdq({VECTOR}, {VECTOR}, i8)

define void @fold(ptr %data, i64 %count, ptr %out) {{
entry:
{loads}
  %first = xor {VECTOR} %s0, <i64 4294967295, i64 0>
  br label %head
head:
  %place = phi i64 [64, %entry], [%next, %body]
{phis}
  %more = icmp ult i64 %place, %count
  br i1 %more, label %body, label %done
body:
  %here = getelementptr i8, ptr %data, i64 %place
{steps}
  %next = add i64 %place, 64
  br label %head
done:
{stores}
  ret void
}}
"""


def _step(k):
    call = f"call {VECTOR} @llvm.x86.pclmulqdq({VECTOR} %x{k}, {VECTOR} <i64 {FAR}, i64 {NEAR}>"
    return f"""  %p{k} = getelementptr i8, ptr %here, i64 {16 * k}
  %d{k} = load {VECTOR}, ptr %p{k}, align 1
  %l{k} = {call}, i8 0)
  %h{k} = {call}, i8 17)
  %t{k} = xor {VECTOR} %l{k}, %h{k}
  %y{k} = xor {VECTOR} %t{k}, %d{k}"""
