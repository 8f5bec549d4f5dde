//! Why a lock is over.

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The TTL ran out, by the local clock, before an extend succeeded.
    Expired,
    /// The store has answered that the lock is gone.
    NotHeld,
    /// The cap on the total hold of an auto-extended lock was reached.
    MaxHold,
    /// The backend panicked while it renewed an auto-extended lock, and no task renews the lock any more.
    RenewerPanicked,
    /// The holder itself released the lock or dropped its guard.
    Released,
}

impl LossReason {
    /// `"expired"`, `"not-held"`, `"max-hold"`, `"renewer-panicked"` or `"released"`, as telemetry
    /// spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotHeld => "not-held",
            Self::MaxHold => "max-hold",
            Self::RenewerPanicked => "renewer-panicked",
            Self::Released => "released",
        }
    }
}
