"""Makes fits.json, to which the tests hold the fits of `stats`: run it with SciPy 1.17 and NumPy 2.4 installed.

    python make_fits.py > fits.json
"""

import json

import numpy as np
from scipy import optimize, stats

rng = np.random.default_rng(36)


def line(x, y, sigma):
    popt, pcov = optimize.curve_fit(lambda x, a, b: a + b * x, x, y, sigma=sigma, absolute_sigma=False)
    half = stats.t.ppf(0.975, len(x) - 2) * np.sqrt(np.diag(pcov))
    return {"x": list(x), "y": list(y), "sigma": list(sigma), "intercept": popt[0], "slope": popt[1],
            "intercept_low": popt[0] - half[0], "intercept_high": popt[0] + half[0],
            "slope_low": popt[1] - half[1], "slope_high": popt[1] + half[1]}


def usl(points):
    n, x = np.array(points, float).T
    best = None
    for start in ([x[0] / n[0], 0.01, 0.001], [x[0] / n[0], 0.2, 1e-5], [x[0] / n[0], 0, 0.01]):
        found = optimize.least_squares(
            lambda p: p[0] * n / (1 + p[1] * (n - 1) + p[2] * n * (n - 1)) / x - 1, start,
            bounds=([0, 0, 0], np.inf), x_scale=[x[0] / n[0], 0.1, 0.01], xtol=1e-15, ftol=1e-15, gtol=1e-15,
            max_nfev=20000)
        best = found if best is None or found.cost < best.cost else best
    return {"points": points, "lambda": best.x[0], "sigma": best.x[1], "kappa": best.x[2],
            "rms": float(np.sqrt(2 * best.cost / len(points)))}


def curve(numbers, a, s, k, noise):
    return [[float(n), float(a * n / (1 + s * (n - 1) + k * n * (n - 1)) * (1 + noise * rng.standard_normal()))]
            for n in numbers]


def main():
    x = np.array([0.0, 2, 5, 10, 20])
    lines = [line(x, 160 + 9.8 * x + rng.standard_normal(5), np.array([1.0, 1, 2, 1, 3])),
             line(x[:3], np.array([1.0, 2, 4]), np.ones(3)),
             line(1000 + x, 5 - 0.3 * x + 0.1 * rng.standard_normal(5), np.array([0.1, 0.2, 0.1, 0.3, 0.1]))]
    laws = []
    for xs, ys in [([1.0, 2, 4, 8], [10.0, 19, 33, 60]), ([2.0, 4, 8], [3820.0, 7700, 12600])]:
        fit = stats.linregress(np.log(xs), np.log(ys))
        laws.append({"x": xs, "y": ys, "factor": float(np.exp(fit.intercept)), "exponent": fit.slope})
    curves = [usl([[2.0, 3820.0], [4.0, 7700.0], [8.0, 12600.0]]),
              usl([[8.0, 6445.0], [16.0, 7892.0], [32.0, 7711.0], [64.0, 7775.0], [128.0, 7617.0]]),
              usl(curve([1, 2, 4, 8, 16, 32], 1000, 0.03, 0.002, 0.01)),
              usl(curve([1, 2, 3, 4, 6, 8], 500, 0.2, 0.0, 0.02)),
              usl(curve([1, 2, 4, 8, 16], 120, 0.0, 0.01, 0.03))]
    slopes = []
    for n in (8, 31, 60):
        t = np.arange(n, dtype=float)
        y = 100 + 0.05 * t + rng.standard_normal(n)
        slopes.append({"x": list(t), "y": list(y), "slope": stats.theilslopes(y, t).slope})
    print(json.dumps({"lines": lines, "power_laws": laws, "usl": curves, "theil_sen": slopes}, indent=1))


main()
