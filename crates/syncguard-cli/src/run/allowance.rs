//! How long a command may run until its lock is confirmed again.

use std::time::Duration;

use syncguard::Held;

use super::options::LossAction;

/// How long a command may outlive the expiry of its lock if `syncguard` is silent. A store frees a
/// lock one second after its expiry; the command ends before that, even if the watchdog gets the
/// processor late.
pub(super) const SLACK: Duration = Duration::from_millis(250);

/// How long the command may begin: no command begins when the lock may have another holder, whatever happens to it
/// later.
pub(super) fn time_to_begin(held: &Held) -> Duration {
    held.valid_for() + SLACK
}

/// How long the command may run until its lock is confirmed again; `None` means without limit.
pub(super) fn allowed_time(held: &Held, loss_action: LossAction) -> Option<Duration> {
    (loss_action != LossAction::Ignore).then(|| time_to_begin(held))
}
