"""erf and what belongs to it: erfc, erfcx, erfinv, and ndtri and log_ndtr of the normal law.

erf in f32 is 1 - 2**q(|x|) with a polynomial q, free of divisions and branches. Everything else
rests on erfcx(x) = exp(x*x) * erfc(x), which varies slowly: a polynomial in (x - K) / (x + K).
Coefficients are minimax or Chebyshev fits; comments give interval and relative error.
"""

import math

from flambeau.codegen.mathlib import (
    EXP2_F32,
    FORMAT,
    at_least,
    at_most,
    exp,
    exp_parts,
    exp_sum,
    fast_two_sum,
    horner,
    log,
    log1p,
    log_sum,
    power_of_two,
    times_power,
)
from flambeau.codegen.scalar import abs_, const, native, select, spelled
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import sqrt as _sqrt

inf, nan = math.inf, math.nan

# log2(erfc(x)) on [1/2, 3.95]; error in erf 4.8e-9
_ERF_LOG2 = (
    5.252062692306936e-05, -1.6283963918685913, -0.916509211063385, -0.15255622565746307,
    0.03342753276228905, -0.004757676739245653, 0.00032278362778015435,
)  # fmt: skip
# erf(x) / x - 1 on [0, 1/2] in powers of x**2; errors in erf 1.5e-9 and 1.4e-17
_ERF_SMALL = {
    "f32": (
        0.12837916612625122, -0.37612611055374146, 0.1128285676240921, -0.026759091764688492,
        0.004721667617559433,
    ),
    "f64": (
        0.1283791670955126, -0.37612638903183465, 0.1128379167092481, -0.02686617063271474,
        0.005223977370308104, -0.0008548297522727001, 0.00012053324230900639,
        -1.4845581628503899e-05, 1.4723193688354771e-06,
    ),
}  # fmt: skip
# erfcx(x) * (1 + 2x) on [1/2, inf) in powers of (x - K) / (x + K); errors 6.8e-9 and 7.7e-17
_ERFCX_K = {"f32": 2.0, "f64": 3.0}
_ERFCX = {
    "f32": (
        1.2769783735275269, -0.09276379644870758, -0.16603004932403564, 0.1640501767396927,
        -0.054225724190473557, -0.008021000772714615, 0.008755228482186794,
        0.0012048182543367147, -0.0015300442464649677, -0.00029783480567857623,
        0.0002590214426163584,
    ),
    "f64": (
        1.2530080582697296, -0.13562110612458167, -0.04756229435345692, 0.12964515870282306,
        -0.11927366341493705, 0.06830802734158936, -0.023770514927099116, 0.002529391858921593,
        0.0018886904529544744, -0.0007798327028775022, -0.00010516035721234167,
        0.00012510199447428766, 4.95122173959126e-06, -2.011083001132571e-05,
        -7.334259930323331e-07, 3.4977115379603526e-06, 3.52454891007153e-07,
        -6.54812647162104e-07, -1.2388523249452083e-07, 1.33542618447207e-07,
        1.851499920213648e-08, -2.3591253285619514e-08, 3.454535792092984e-09,
    ),
}  # fmt: skip


def _erfcx_large(a, less_one=None):
    """erfcx for 1/2 <= a < about 1e100 (1e30 in f32), times 1 + less_one, to less than 1 ulp."""
    k = _ERFCX_K[a.type]
    g = horner((a - k) / (a + k), _ERFCX[a.type])
    top = g if less_one is None else _fma(g, less_one, g)
    d, d_low = fast_two_sum(a + a, const(1.0, a.type))
    r = 1.0 / d
    q = top * r
    rest = _fma(-q, d_low, _fma(-q, d, top))
    if less_one is not None:
        rest = rest + _fma(g, less_one, g - top)
    return _fma(rest, r, q)


def _erfc_large(a):
    """erfc for a >= 1/2."""
    a = at_most(a, 10.5 if a.type == "f32" else 28.0)
    square = a * a
    p, t = exp_parts(-square, _fma(-a, a, square), less_one=True)
    return times_power(_erfcx_large(a, p), t)


def _erf_small(x):
    return _fma(x, horner(x * x, _ERF_SMALL[x.type]), x)


@spelled
def erf(x):
    a = abs_(x)
    if x.type == "f64":
        large = 1.0 - _erfc_large(at_least(a, 0.5))
    else:
        magic = FORMAT["f32"].magic
        y = horner(at_most(a, 3.95), _ERF_LOG2)
        t = y + magic
        large = _fma(-power_of_two(t), horner(y - (t - magic), EXP2_F32), 1.0)
    return select(a < 0.5, _erf_small(x), _copysign(large, x))


@spelled
def erfc(x):
    a = abs_(x)
    large = _erfc_large(at_least(a, 0.5))
    return select(a < 0.5, 1.0 - _erf_small(x), select(x < 0, 2.0 - large, large))


@spelled
def erfcx(x):
    a = abs_(x)
    huge = a > (1.0e6 if x.type == "f32" else 1.0e12)
    large = _erfcx_large(at_least(select(huge, const(1.0, x.type), a), 0.5))
    large = select(huge, 0.5641895835477563 / a, large)
    square = a * a
    e = exp_sum(square, select(square < inf, _fma(a, a, -square), 0.0))
    near = e * (1.0 - _erf_small(x))
    return select(a < 0.5, near, select(x < 0, _fma(e, 2.0, -large), large))


# erfinv(x) / x in the variable v of [-1, 1], for w = -log(1 - x*x): w on [0, 6.25], then sqrt(w) on
# [2.5, 4] and [4, 6.2]; errors 1e-8 and 3e-17
_ERFINV = {
    "f32": (
        (
            1.6536545753479004, 0.7504943013191223, -0.05892295017838478, -0.022604435682296753,
            0.017812874168157578, -0.004138280637562275, -0.0012910953955724835,
            0.001238347846083343, -0.0002265881048515439, -0.00013073913578409702,
            5.9342219174141064e-05,
        ),
        (
            3.083885669708252, 0.7539442181587219, 0.0030213657300919294, -0.001582597615197301,
            0.0007864786311984062, -0.00040029993397183716, 0.0001748757204040885,
            -4.8233669076580554e-05, -3.741039108717814e-06, 6.119313638919266e-06,
        ),
    ),
    "f64": (
        (
            1.6536545626831027, 0.7504943200799635, -0.05892256710377839, -0.022604447453450232,
            0.017808361818321756, -0.004137314377403391, -0.001271692268923054,
            0.001232485568550093, -0.00026439366376450275, -0.00011688883906368398,
            9.336736525855553e-05, -1.5027713926607673e-05, -1.12572237422896e-05,
            7.1300663740767115e-06, -6.839448584111029e-07, -1.059336931327948e-06,
            5.397895417173957e-07, -1.0167881522843899e-08, -9.905042307855316e-08,
            3.9142671001331085e-08, 5.039596477958063e-09, -8.557984074479201e-09,
            1.4461050507676023e-09, 7.680990475576525e-10, -2.5466157998892667e-10,
        ),
        (
            3.0838856104922208, 0.753944225770624, 0.003021139436383993, -0.0015825410894071102,
            0.0007883078510001966, -0.00040063569835709886, 0.0001696650258988731,
            -4.739182728807125e-05, 2.405839302031157e-06, 5.12731666449741e-06,
            -2.664698628136375e-06, 5.264624728714587e-07, 9.267697270993584e-08,
            -9.468994570246937e-08, 2.670345089321486e-08, -3.6862448212666726e-10,
            -2.7192930488742553e-09, 9.889115389827977e-10, 3.864597530875862e-12,
            -6.466960514925277e-11,
        ),
        (
            4.950934853078874, 1.1112932209525221, -0.00024061923103277464,
            -0.00024824882614054726, 9.780198013907673e-05, -2.7640589764564733e-05,
            6.891263413987488e-06, -1.6195423498762667e-06, 3.839895949741212e-07,
            -1.0704740875842147e-07, 4.291730371023859e-08, -2.345296276888243e-08,
            1.3437321012298336e-08, -6.78053964368967e-09, 3.0937182880922402e-09,
            -1.3896173955151485e-09, 3.6599529646812757e-10, 9.439287492198168e-11,
            -6.564276345396533e-11,
        ),
    ),
}  # fmt: skip


def _erfinv_ratio(w):
    """erfinv(x) / x for w = -log(1 - x*x)."""
    fits = _ERFINV[w.type]
    y = horner(_fma(w, 2 / 6.25, -1.0), fits[0])
    s = _sqrt(w)
    middle = horner(_fma(s, 1 / 0.75, -3.25 / 0.75), fits[1])
    if w.type == "f64":
        middle = select(s > 4.0, horner(_fma(s, 1 / 1.1, -5.1 / 1.1), fits[2]), middle)
    return select(w > 6.25, middle, y)


@spelled
def erfinv(x):
    a = abs_(x)
    square = x * x
    u = 1.0 - square
    y = x * _erfinv_ratio(-log_sum(u, ((1.0 - u) - square) + _fma(-x, x, square)))
    y = select(a == 1.0, _copysign(const(inf, x.type), x), y)
    return select(a > 1.0, const(nan, x.type), y)


# (s - log(s) / s - y) * s for y = -ndtri(p), s = sqrt(-2 log(p)), in the variable v of [-1, 1],
# for 1/s on [1/s_max, 1/8] and [1/8, 1/2.6]; errors 2e-9 and 2e-17
_NDTRI_MOST = {"f32": 15.0, "f64": 38.7}
_NDTRI = {
    "f32": (
        (
            0.9475557208061218, 0.011210419237613678, 0.00024704780662432313,
            -6.237404886633158e-05, 1.0587595170363784e-05, -1.8816543843058753e-06,
            3.406620407986338e-07,
        ),
        (
            1.010839581489563, 0.051388151943683624, -0.000995663576759398,
            -0.00023312572739087045, 0.00015731308667454869, -7.111574086593464e-05,
            2.5939132683561184e-05, -9.209333256876562e-06, 5.269698249321664e-06,
            -2.062080284304102e-06,
        ),
    ),
    "f64": (
        (
            0.9398549615994058, 0.018283724985096634, 0.0012042732630646814,
            -0.0005088813001346689, 0.0001679319765207115, -5.762195518997792e-05,
            2.167809408956244e-05, -8.885681002039518e-06, 3.8911524483503764e-06,
            -1.7922615532331915e-06, 8.588462703229913e-07, -4.2361623610636477e-07,
            2.144292553451325e-07, -1.1575979338514153e-07, 6.295788497620026e-08,
            -2.1734092108202107e-08, 8.232359796838676e-09, -2.6870702876999435e-08,
            1.9882277204439192e-08, 1.7572986756342734e-08, -1.4521370445690471e-08,
            -1.689449677322888e-08, 1.243490784565703e-08, 7.144403592043481e-09,
            -5.1022285738933205e-09, -1.7962810219375158e-09, 1.2004719726947063e-09,
        ),
        (
            1.010839632843346, 0.05138815502590594, -0.0009955868347851977,
            -0.00023319547096090198, 0.00015671640313274433, -7.073708517616133e-05,
            2.7535143573307746e-05, -1.0031806109504781e-05, 3.6040755555875655e-06,
            -1.3189427019747566e-06, 4.986269456204752e-07, -1.9463784571130647e-07,
            7.801618257342429e-08, -3.2217446650319465e-08, 1.3438465961275095e-08,
            -5.111171625153442e-09, 2.094773313933233e-09, -1.5003872113664947e-09,
            7.089984805034089e-10, 1.1121512080487722e-10, -7.359044100420593e-11,
            -1.3588302450365483e-10, 6.520282158597947e-11,
        ),
    ),
}  # fmt: skip


@spelled
def ndtri(p):
    """The inverse of the normal distribution function."""
    upper = p > 0.5
    q = select(upper, 1.0 - p, p)
    # centre: sqrt(2) * erfinv(2q - 1)
    x = _fma(q, 2.0, -1.0)
    centre = 1.4142135623730951 * x * _erfinv_ratio(at_most(-log(4.0 * q * (1.0 - q)), 6.25))
    s = _sqrt(-2.0 * log(q))
    u = 1.0 / s
    most = _NDTRI_MOST[p.type]
    far, near = _NDTRI[p.type]

    def scaled(low, high):
        return _fma(u, 2 / (high - low), -(high + low) / (high - low))

    far, near = horner(scaled(1 / most, 0.125), far), horner(scaled(0.125, 1 / 2.6), near)
    f = select(u < 0.125, far, near)
    tail = (log(s) + f) * u - s
    y = select(q < 0.03, tail, centre)
    y = select(q == 0, const(-inf, p.type), y)
    return select((p < 0) | (p > 1), const(nan, p.type), select(upper, -y, y))


@spelled
def log_ndtr(x):
    """The logarithm of the normal distribution function."""
    t = x * 0.7071067811865476
    a = at_least(-t, 0.5)
    low = log(0.5 * erfcx(a)) - t * t
    high = log1p(-0.5 * erfc(at_least(t, -0.8)))
    return select(x < -1.0, low, high)


# (normal_cdf(x) - 1/2) / x on |x| <= 5.6 as a quotient in x**2: error 9.3e-9, 1.9e-7 in f32
_CDF_ABOVE = (
    0.398942232131958, 0.03437567502260208, 0.004707222804427147, 0.00017384470265824348,
    6.356351150316186e-06, 2.214484240425918e-08,
)  # fmt: skip
_CDF_BELOW = (
    1.0, 0.2528327405452728, 0.028939813375473022, 0.0019129456486552954, 7.509922579629347e-05,
    1.1801844266301487e-06,
)  # fmt: skip


def _quotient_of_squares(z, above, below):
    """above(z) / below(z), of which only the sign counts from z = 32 on."""
    near = at_most(z, 64.0)  # for targets whose quotients need denominators of a moderate size
    portable = horner(z, above) / horner(z, below)
    return native("divide", horner(near, above), horner(near, below), portable=portable)


@spelled
def normal_cdf(x):
    """The share of a normal distribution below x, with a small absolute (not relative) error.

    gelu multiplies it by x and needs no more; a third of the instructions of erf.
    """
    if x.type == "f64":
        return 0.5 * (1.0 + erf(x * 0.7071067811865476))
    y = at_most(x, 5.6)
    z = y * y
    share = _fma(y, _quotient_of_squares(z, _CDF_ABOVE, _CDF_BELOW), 0.5)
    # below -5.6 the quotient overshoots: nothing is left there (nor where z overflows, to nan)
    return select(share > 0, share, const(0.0, x.type))


# (slope of x * normal_cdf(x) - 1/2) / x on |x| <= 5.6 as a quotient in x**2: error 1.4e-9, 1.8e-7
# in f32
_SLOPE_ABOVE = (
    0.7978845503769249, -0.02925053646512544, 0.01413295449610374, 7.876600924148536e-05,
    3.411863693115514e-05, 6.018784817664651e-07, 1.5010539460993976e-08,
)  # fmt: skip
_SLOPE_BELOW = (
    1.0, 0.29667308704383794, 0.041604467105901224, 0.003620592488455368, 0.00021479394618346796,
    8.710292072660895e-06, 2.5469276153130456e-07, 1.2881160198931042e-09,
)  # fmt: skip


@spelled
def gelu_slope(x):
    """The derivative of x * normal_cdf(x), with a small absolute error: one quotient, no exp."""
    if x.type == "f64":
        return normal_cdf(x) + x * (exp(x * x * -0.5) * 0.3989422804014327)
    y = at_most(x, 5.6)
    z = y * y
    zero = x - x  # nan at both ends, where the formula has infinity times nothing
    slope = _fma(y, _quotient_of_squares(z, _SLOPE_ABOVE, _SLOPE_BELOW), 0.5 + zero)
    return select(x < -5.6, zero, slope)
