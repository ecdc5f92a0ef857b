//! What a comparison can find before it has found it: power, the least effect that it finds, the blocks it needs.
//!
//! "No difference found" means nothing without the difference that would have been found, so `compare` prints it
//! always. Effects and deviations are ln-ratios. The usual rule, n = (2.8·s/ln(1 + δ))², takes the noise as known;
//! with six blocks it promises too much, so the noise's own uncertainty is integrated here, as the noncentral t
//! distribution does.

use super::distributions::{ln_gamma, normal_cdf, rising_root, t_quantile};

/// The power at which an effect counts as one that is found.
pub const POWER: f64 = 0.8;

/// No comparison is planned with more blocks than this.
pub const BLOCKS_MAX: u32 = 10_000;

/// How exact a comparison is, before its effect is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// The standard deviation of the estimate, as an ln-ratio: s/√n for n blocks.
    pub standard_error: f64,
    /// The degrees of freedom behind it: n - 1 for n blocks.
    pub df: f64,
    /// The level of the two-sided interval.
    pub level: f64,
    /// The ln-ratio that an estimate must reach to be material; 0 for none.
    pub margin: f64,
}

impl Design {
    /// Of n blocks (at least 2) whose ln-ratios have this standard deviation.
    pub fn of_blocks(blocks: u32, deviation: f64, level: f64, margin: f64) -> Design {
        Design {
            standard_error: deviation / f64::from(blocks).sqrt(),
            df: f64::from(blocks) - 1.0,
            level,
            margin,
        }
    }

    /// The chance that a true ln-ratio of `effect` (above 0) is called a difference in its own direction: the
    /// interval leaves out zero and the estimate reaches the margin.
    pub fn power(&self, effect: f64) -> f64 {
        let (error, df) = (self.standard_error, self.df);
        if error <= 0.0 {
            return if effect >= self.margin { 1.0 } else { 0.0 };
        }
        let t = t_quantile(1.0 - 0.5 * self.level, df);
        let called = |(u, weight): &(f64, f64)| {
            let needed = (t * u * error).max(self.margin);
            weight * normal_cdf((effect - needed) / error)
        };
        noise_found(df, STEPS_FINE).iter().map(called).sum()
    }

    /// The least true ln-ratio that a comparison like this one finds with power [`POWER`]: the minimum detectable
    /// effect.
    ///
    /// The noise is known only as well as these blocks show it, so the power is averaged over what the true noise
    /// may be. Without that the effect printed after six blocks is found in two of three, not in four of five.
    pub fn detectable(&self) -> f64 {
        if self.standard_error <= 0.0 {
            return self.margin;
        }
        let t = t_quantile(1.0 - 0.5 * self.level, self.df);
        let noises = noise_found(self.df, STEPS_COARSE);
        let found = |effect: f64| -> f64 {
            let over_truth = noises.iter().map(|(truth, truth_weight)| {
                let error = self.standard_error / truth;
                let over_found = noises.iter().map(|(u, weight)| {
                    let needed = (t * u * error).max(self.margin);
                    weight * normal_cdf((effect - needed) / error)
                });
                truth_weight * over_found.sum::<f64>()
            });
            over_truth.sum()
        };
        let mut most = self.margin + (t + 1.0) * self.standard_error;
        // With one degree of freedom (two blocks) a dozen doublings are needed; more never are.
        for _ in 0..DOUBLINGS_MAX {
            if found(most) >= POWER {
                break;
            }
            most *= 2.0;
        }
        rising_root(0.0, most, EFFECT_ERROR, |effect| found(effect) - POWER)
    }
}

/// Steps of an integral over the noise: where it is shown once, and where it is nested in another.
const STEPS_FINE: u32 = 400;
const STEPS_COARSE: u32 = 40;
const DOUBLINGS_MAX: u32 = 40;
/// How exact the detectable effect is, relative to itself.
const EFFECT_ERROR: f64 = 1e-5;

/// What an estimated deviation may be, as a multiple `u` of the true one, with weights that sum to one: u·√df
/// follows the chi distribution. Simpson's rule.
fn noise_found(df: f64, steps: u32) -> Vec<(f64, f64)> {
    let ln_scale = (2.0_f64).ln() + 0.5 * df * (0.5 * df).ln() - ln_gamma(0.5 * df);
    let low = (1.0 - 6.0 / df.sqrt()).max(1e-9);
    let step = (1.0 + 6.0 / df.sqrt() - low) / f64::from(steps);
    let node = |i: u32| {
        let u = low + f64::from(i) * step;
        let simpson = match i {
            0 => 1.0,
            i if i == steps => 1.0,
            i if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let density = (ln_scale + (df - 1.0) * u.ln() - 0.5 * df * u * u).exp();
        (u, density * simpson * step / 3.0)
    };
    let nodes: Vec<(f64, f64)> = (0..=steps).map(node).collect();
    let total: f64 = nodes.iter().map(|(_, weight)| weight).sum();
    nodes
        .into_iter()
        .map(|(u, weight)| (u, weight / total))
        .collect()
}

/// How many blocks bring the half-width of the interval down to `half_width` (ln-ratio, above 0), when each block
/// has this deviation; [`BLOCKS_MAX`] when none below does.
pub fn blocks_for_half_width(half_width: f64, deviation: f64, level: f64) -> u32 {
    let enough = |blocks: u32| {
        let n = f64::from(blocks);
        t_quantile(1.0 - 0.5 * level, n - 1.0) * deviation / n.sqrt() <= half_width
    };
    let (mut few, mut many) = (1, BLOCKS_MAX);
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if enough(middle) {
            many = middle;
        } else {
            few = middle;
        }
    }
    many
}

#[cfg(test)]
mod tests {
    use super::super::distributions::tests::close;
    use super::*;

    #[test]
    fn power_is_the_noncentral_t_distributions() {
        // scipy.stats.nct.sf(t.ppf(1 - level/2, n - 1), n - 1, effect * sqrt(n)), deviation 1
        for (blocks, level, effect, power) in [
            (6, 0.05, 1.5, 0.8325291407868495),
            (6, 0.01, 2.5, 0.9202844071305016),
            (12, 0.01, 1.0, 0.6418778207952924),
            (40, 0.05, 0.5, 0.8693979112082977),
            (3, 0.05, 3.0, 0.7452680066623015),
        ] {
            let design = Design::of_blocks(blocks, 1.0, level, 0.0);
            close(design.power(effect), power, 1e-5);
        }
    }

    #[test]
    fn power_beyond_a_margin_is_the_integral() {
        // scipy.integrate.quad of norm.sf((max(t*u*se, margin) - effect)/se) over the chi density of u
        for (blocks, level, effect, deviation, power) in [
            (6, 0.05, 0.2, 0.09, 0.9890634453593808),
            (12, 0.01, 0.1, 0.05, 0.9992058634012442),
            (24, 0.05, 0.06, 0.09, 0.7277971237895842),
        ] {
            let design = Design::of_blocks(blocks, deviation, level, 0.0488);
            close(design.power(effect), power, 1e-5);
        }
    }

    #[test]
    fn the_detectable_effect_is_as_uncertain_as_the_noise() {
        // numpy: c with mean(norm.cdf(c*u1 - t*u2)) = 0.8, u1 and u2 drawn from sqrt(chi2(df)/df) four million times
        for (blocks, level, times_error) in [
            (3, 0.05, 8.764),
            (6, 0.05, 4.181),
            (6, 0.01, 6.257),
            (24, 0.01, 3.846),
        ] {
            let design = Design::of_blocks(blocks, f64::from(blocks).sqrt(), level, 0.0);
            close(design.detectable(), times_error, 0.005);
        }
        // Many blocks: the rule of thumb, 2.8·s/sqrt(n).
        let many = Design::of_blocks(400, 0.09, 0.05, 0.0).detectable();
        close(many, 2.8 * 0.09 / 20.0, 0.01);
        // Half of all estimates of an effect as large as the margin fall short of it.
        let material = Design::of_blocks(24, 0.02, 0.05, 0.05).detectable();
        assert!(material > 0.05 && material < 0.06, "{material}");
    }

    #[test]
    fn silence_finds_whatever_is_material() {
        let silent = Design::of_blocks(6, 0.0, 0.05, 0.05);
        assert_eq!(silent.power(0.06), 1.0);
        assert_eq!(silent.power(0.04), 0.0);
        close(silent.detectable(), 0.05, 1e-6);
    }

    #[test]
    fn blocks_follow_the_square_of_the_noise() {
        // numpy: the least n with t.ppf(.975, n-1)*s/sqrt(n) <= h
        assert_eq!(blocks_for_half_width(0.05, 0.09, 0.05), 15);
        assert_eq!(blocks_for_half_width(0.05, 0.23, 0.05), 84);
        assert_eq!(blocks_for_half_width(0.05, 0.0, 0.05), 2);
        assert_eq!(blocks_for_half_width(1e-9, 0.23, 0.05), BLOCKS_MAX);
    }
}
