//! Measured times.

/// Times in ns.
pub struct Sorted(Vec<u64>);

impl Sorted {
    pub fn new(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// In ms.
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        ms(self.0.get((last as f64 * part) as usize).copied().unwrap_or(0))
    }
}

pub fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
