//! How a lock is taken, held and given back.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::acquisition::AcquisitionOptions;
use crate::client::{ClientState, ReleaseErrorHandler};
use crate::value::Holder;
use crate::value::{IntoKey, Key, LockError, Ttl};

/// Keeps a lock alive for as long as its guard lives.
///
/// A background task extends the lock after each third of the TTL. After an error it tries again until
/// the TTL is over, and then declares the lock lost: watch [`Held::lost`](crate::Held::lost).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AutoExtend {
    /// The longest time for which the lock may be held, counted from the acquisition. Default: no limit.
    pub max_hold: Option<Duration>,
}

impl AutoExtend {
    /// Renewal without a limit on the total hold.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_hold: None }
    }

    /// Declares the lock lost after this time, even if every renewal succeeds. From 1 ms to 100 years.
    #[must_use]
    pub const fn with_max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }
}

/// The settings of a lock, without its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) ttl: Ttl,
    pub(crate) acquisition: AcquisitionOptions,
    pub(crate) auto_extend: Option<AutoExtend>,
    pub(crate) on_release_error: Option<ReleaseErrorHandler>,
    pub(crate) dispose_timeout: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// For how long a failing store is asked again; zero for not at all.
    pub(crate) ride_out: Duration,
    /// The recipe that the lock is part of, for observers and for people.
    pub(crate) recipe: Option<&'static str>,
    /// The holder to store with the lock; `None` for the holder of the backend.
    pub(crate) holder: Option<Holder>,
    pub(crate) cancellation: Option<CancellationToken>,
    /// The first bad argument of the `with_…` calls, reported when the lock is acquired.
    pub(crate) invalid: Option<Box<LockError>>,
}

impl Policy {
    /// The holder of the lock. The backend's holder fills in what the policy does not set.
    pub(crate) fn holder(&self, backend: &ClientState) -> Holder {
        self.own_holder(backend).unwrap_or_else(|| backend.holder().clone())
    }

    /// The holder to ask for; `None` for the holder of the backend.
    pub(crate) fn own_holder(&self, backend: &ClientState) -> Option<Holder> {
        Holder::of_lock(self.holder.as_ref(), backend.holder(), self.recipe)
    }

    /// Sets a value that was checked, or keeps the error if it is the first one.
    pub(crate) fn set<T>(&mut self, checked: Result<T, LockError>, set: impl FnOnce(&mut Self, T)) {
        match checked {
            Ok(value) => set(self, value),
            Err(error) => _ = self.invalid.get_or_insert_with(|| Box::new(error)),
        }
    }

    /// Sets this text of the holder.
    pub(crate) fn set_text(&mut self, at: usize, text: &str) {
        let holder = Holder::with_text(self.holder.as_ref(), at, text);
        self.set(holder, |policy, holder| policy.holder = Some(holder));
    }
}

/// The `with_…` methods that [`LockConfig`] and [`Locker`](crate::Locker) share: one text for both.
macro_rules! policy_methods {
    () => {
        /// How long the lock lives without an extend: a [`Ttl`](crate::Ttl) or a
        /// [`Duration`](std::time::Duration). Default: 30 s.
        #[must_use]
        pub fn with_ttl(mut self, ttl: impl crate::IntoTtl) -> Self {
            self.policy.set(ttl.into_ttl(), |policy, ttl| policy.ttl = ttl);
            self
        }

        /// How long to wait at most while another holder has the lock, 1 ms to 100 years. Default: 5 s.
        ///
        /// This is the timeout of [`with_acquisition`](Self::with_acquisition), which also sets how often to
        /// try, and the pauses in between. The later of the two calls decides.
        #[must_use]
        pub fn with_wait_up_to(self, timeout: std::time::Duration) -> Self {
            let acquisition = self.policy.acquisition.with_timeout(timeout);
            self.with_acquisition(acquisition)
        }

        /// Rides out an outage of the store, 1 ms to 100 years: if an acquisition fails with a
        /// [retryable](crate::LockError::is_retryable) error other than `AcquisitionTimeout`, it is repeated after pauses of 100 ms to 1 s,
        /// until this time after the first failure. An answer that another holder has the lock ends the outage, and the
        /// next failure is a first one. Default: off, and the first failure is reported.
        ///
        /// This time is separate from the time to wait for a holder, which each repeated acquisition has in
        /// full. It applies to [`acquire`](crate::acquire()) and [`lock`](crate::lock());
        /// [`try_acquire`](crate::try_acquire()) makes one attempt.
        #[must_use]
        pub fn with_ride_out(mut self, time: std::time::Duration) -> Self {
            let time = crate::util::checked_timeout("time to ride out", time);
            self.policy.set(time, |policy, time| policy.ride_out = time);
            self
        }

        /// How long and how often to try, and the pauses in between.
        #[must_use]
        pub fn with_acquisition(mut self, acquisition: crate::AcquisitionOptions) -> Self {
            let checked = acquisition.check();
            self.policy.set(checked, |policy, ()| policy.acquisition = acquisition);
            self
        }

        /// Keeps the lock alive for as long as the guard, or the work of `lock`, lives. Default: off.
        #[must_use]
        pub fn with_auto_extend(mut self, plan: crate::AutoExtend) -> Self {
            let cap = plan.max_hold.map(|it| crate::util::checked_timeout("cap on the hold", it));
            self.policy.set(cap.transpose(), |policy, _| policy.auto_extend = Some(plan));
            self
        }

        /// Sets the handler of errors in background releases. Default: the backend's handler.
        #[must_use]
        pub fn with_on_release_error(
            mut self,
            handler: crate::shared::ReleaseErrorHandler,
        ) -> Self {
            self.policy.on_release_error = Some(handler);
            self
        }

        /// How long a release may take before it counts as failed, 1 ms to 100 years. Default: the setting
        /// of the backend, which is 5 s unless changed.
        #[must_use]
        pub fn with_dispose_timeout(mut self, timeout: std::time::Duration) -> Self {
            let timeout = crate::util::checked_timeout("dispose timeout", timeout);
            self.policy.set(timeout, |policy, timeout| policy.dispose_timeout = Some(timeout));
            self
        }

        /// Keeps the lock for at least this long after it was granted, 1 ms to 100 years, even if the work
        /// ends earlier. Default: off.
        ///
        /// Use this for work that is due once in a period, on several machines whose clocks differ: the lock
        /// is still taken when the slowest clock gets there. If the holder gives the lock back earlier, in any
        /// way (a release, a drop, the end of [`lock`](crate::lock()), an error or a panic of the work), the
        /// lock stays until the end of this time, and [`release`](crate::LockGuard::release) answers
        /// [`Kept`](crate::ReleaseResult::Kept). The guard itself is over at once.
        ///
        /// A store frees a lock [`TIME_TOLERANCE`](crate::contract::TIME_TOLERANCE) after its expiry, and not
        /// earlier. So if less than that is left, a kept lock stays for the tolerance and one millisecond more.
        /// The time that the store takes to answer comes on top.
        ///
        /// The minimum hold does not lengthen the time for which the work may rely on the lock: that is the
        /// TTL. After a crash the lock ends by its TTL.
        #[must_use]
        pub fn with_min_hold(mut self, min_hold: std::time::Duration) -> Self {
            let min_hold = crate::util::checked_timeout("minimum hold", min_hold);
            self.policy.set(min_hold, |policy, min_hold| policy.min_hold = Some(min_hold));
            self
        }

        /// Names the holder of the lock, for people: the store keeps this label with the lock. Up to 128 bytes,
        /// and no control characters. Default: the label of the backend, which is host name and process id
        /// unless changed.
        #[must_use]
        pub fn with_holder(mut self, label: impl AsRef<str>) -> Self {
            self.policy.set_text(crate::value::LABEL, label.as_ref());
            self
        }

        /// Says what the lock is held for, such as the address of a run: a note beside the
        /// [label](Self::with_holder), of the same form. Default: the note of the backend, which is none unless
        /// changed.
        #[must_use]
        pub fn with_note(mut self, note: impl AsRef<str>) -> Self {
            self.policy.set_text(crate::value::NOTE, note.as_ref());
            self
        }

        /// Holds the lock without a label and a note.
        #[must_use]
        pub fn without_holder(self) -> Self {
            self.with_holder("").with_note("")
        }

        /// Gives up the acquisition with `Aborted` when the token fires. The token does not affect the work
        /// or the release.
        #[must_use]
        pub fn with_cancellation(mut self, token: tokio_util::sync::CancellationToken) -> Self {
            self.policy.cancellation = Some(token);
            self
        }
    };
}

pub(super) use policy_methods;

/// The key and the settings of one lock.
///
/// A plain text is a configuration with the defaults. Bad arguments are reported when the lock is
/// acquired, before anything is sent.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::{AutoExtend, LockConfig};
///
/// let nightly = LockConfig::new("job:nightly-report")
///     .with_ttl(Duration::from_secs(60))
///     .with_auto_extend(AutoExtend::new().with_max_hold(Duration::from_secs(3600)));
/// ```
#[derive(Clone, Debug)]
pub struct LockConfig {
    /// The error is boxed to keep the futures of waiters small.
    pub(crate) key: Result<Key, Box<LockError>>,
    pub(crate) policy: Policy,
}

impl LockConfig {
    /// A lock on this key with the defaults. Takes a text or a [`Key`].
    #[must_use]
    pub fn new(key: impl IntoKey) -> Self {
        Self::with_policy(key, Policy::default())
    }

    /// The same settings for another key. Takes a text or a [`Key`].
    #[must_use]
    pub fn with_key(mut self, key: impl IntoKey) -> Self {
        self.key = as_key(key);
        self
    }

    /// The key to lock.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn key(&self) -> Result<&Key, LockError> {
        self.key.as_ref().map_err(|error| LockError::clone(error))
    }

    /// How long the lock lives without an extend.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.policy.ttl
    }

    /// Whether and how the lock is kept alive.
    #[must_use]
    pub fn auto_extend(&self) -> Option<AutoExtend> {
        self.policy.auto_extend
    }

    /// How long and how often to try.
    #[must_use]
    pub fn acquisition(&self) -> AcquisitionOptions {
        self.policy.acquisition
    }

    /// For how long an outage of the store is ridden out; zero without [`with_ride_out`](Self::with_ride_out).
    #[must_use]
    pub fn ride_out(&self) -> Duration {
        self.policy.ride_out
    }

    /// How long the lock stays at the least, if it has such a time.
    #[must_use]
    pub fn min_hold(&self) -> Option<Duration> {
        self.policy.min_hold
    }

    /// For authors of recipes: the holder of the lock on a backend with this state.
    #[must_use]
    pub fn holder(&self, client: &ClientState) -> Holder {
        self.policy.holder(client)
    }

    /// The token that ends the acquisition, if one is set.
    #[must_use]
    pub fn cancellation(&self) -> Option<&CancellationToken> {
        self.policy.cancellation.as_ref()
    }

    /// Reports the first bad argument of the key and the `with_…` calls. An acquire does the same; a recipe
    /// calls this before it takes anything.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`.
    pub fn check(&self) -> Result<(), LockError> {
        self.key()?;
        self.policy.invalid.as_deref().map_or(Ok(()), |error| Err(error.clone()))
    }

    pub(crate) fn with_policy(key: impl IntoKey, policy: Policy) -> Self {
        Self { key: as_key(key), policy }
    }

    policy_methods!();
}

/// For authors of recipes: the settings of a lock that is part of this recipe, such as `election` or `semaphore`. The lock is
/// renewed, by the plan of the settings if they have one.
///
/// A [`LockObserver`](crate::observe::LockObserver) gets the name, and telemetry shows it. It is also the
/// [note](LockConfig::with_note) of a lock that has a label and for which no note is set.
#[must_use]
pub fn as_recipe(config: impl Into<LockConfig>, recipe: &'static str) -> LockConfig {
    let mut config = config.into();
    config.policy.auto_extend.get_or_insert(AutoExtend::new());
    config.policy.recipe = Some(recipe);
    config
}

fn as_key(key: impl IntoKey) -> Result<Key, Box<LockError>> {
    key.into_key().map_err(Box::new)
}

impl<K> From<K> for LockConfig
where
    K: IntoKey,
{
    /// A lock on this key with the defaults. Never fails: a bad key is reported when the lock is acquired.
    fn from(key: K) -> Self {
        Self::new(key)
    }
}
