//! The pauses between the attempts of one acquisition.

use std::time::Duration;

use super::acquisition::{AcquisitionOptions, Backoff, Jitter};
use crate::util::pause::{jittered, random_part};

/// The pauses between attempts.
pub(super) struct Pauses<'a> {
    pub(super) options: &'a AcquisitionOptions,
    retries: u32,
}

impl<'a> Pauses<'a> {
    pub(super) fn new(options: &'a AcquisitionOptions) -> Self {
        Self { options, retries: 0 }
    }

    /// The last pause ended early, so it does not count as a retry.
    pub(super) fn uncount(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }

    /// The next pause if `left` remains of the time limit; `None` if the caller must give up.
    pub(super) fn next(&mut self, left: Duration) -> Option<Duration> {
        if self.retries == self.options.max_retries || left < Duration::from_millis(1) {
            return None;
        }
        let base = match self.options.backoff {
            Backoff::Fixed => self.options.retry_delay,
            Backoff::Exponential => self
                .options
                .retry_delay
                .saturating_mul(1_u32.checked_shl(self.retries).unwrap_or(u32::MAX)),
        };
        let pause = self.with_jitter(base.min(self.options.longest_pause()));
        self.retries += 1;
        Some(if pause < left { pause } else { left * 3 / 4 })
    }

    /// A pause as long as the first one, which does not count as a retry.
    pub(super) fn first_pause(&self) -> Duration {
        self.with_jitter(self.options.retry_delay)
    }

    fn with_jitter(&self, pause: Duration) -> Duration {
        match self.options.jitter {
            Jitter::None => pause,
            Jitter::Full => random_part(pause),
            Jitter::Equal => jittered(pause),
        }
    }
}
