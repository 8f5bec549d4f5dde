//! Supervises the running command.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use syncguard::{Held, LossReason};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::job::Job;
use super::lock_file::LockFile;
use super::options::OnLoss;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::{Event, Signals, ends};
use crate::time::human;

/// How the command has ended.
pub(super) struct Ended {
    pub(super) status: Status,
    /// True if the lock was lost while the command ran.
    pub(super) was_lost: bool,
}

/// How long a command may outlive the expiry of its lock if `syncguard` is silent. A store frees a
/// lock one second after its expiry; the command ends before that, even if the keeper gets the
/// processor late.
const SLACK: Duration = Duration::from_millis(250);

/// How long the command may run without further news of its lock; `None` means without limit.
pub(super) fn allowed(held: &Held, on_loss: OnLoss) -> Option<Duration> {
    (on_loss != OnLoss::Ignore).then(|| held.valid_for() + SLACK)
}

/// Waits for the end of the command, forwards signals, and ends the command when the lock is lost.
pub(super) async fn supervise(
    mut job: Job,
    held: &Held,
    on_loss: &OnLoss,
    file: Option<LockFile>,
    signals: &mut Signals,
    output: Output,
) -> Result<Ended, Failure> {
    let started = Instant::now();
    let mut watch = Watch { held, on_loss: *on_loss, file, output, started, end: None };
    let mut lost = std::pin::pin!(held.lost());
    // The keeper hears of the lock several times in the validity of one renewal.
    let mut news =
        interval((held.valid_for() / 8).clamp(Duration::from_millis(20), Duration::from_secs(5)));
    news.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let status = loop {
        tokio::select! {
            biased;
            status = job.wait() => break status,
            reason = &mut lost, if !watch.was_lost() => watch.lose(reason, &mut job).await,
            event = signals.event() => watch.hear(&event, &mut job),
            () = sleep_until(watch.deadline()), if watch.kills() => watch.kill(&job),
            _ = news.tick() => watch.tell(&mut job).await,
        }
    };
    if watch.was_lost() {
        watch.clear(&job).await;
    }
    // Take the terminal back before anything is printed.
    job.terminal = None;
    job.keeper.dismiss().await;
    let status =
        status.map_err(|error| Failure::system("the command cannot be waited for", &error))?;
    Ok(Ended { status: status_of(status), was_lost: watch.was_lost() })
}

struct Watch<'a> {
    held: &'a Held,
    on_loss: OnLoss,
    file: Option<LockFile>,
    output: Output,
    started: Instant,
    /// Set when the lock is lost.
    end: Option<End>,
}

/// How far a command whose lock is lost has been ended.
enum End {
    /// The command continues.
    Never,
    /// The command is killed at this time.
    KillAt(Instant),
    /// The command was killed.
    Killed,
}

impl Watch<'_> {
    fn was_lost(&self) -> bool {
        self.end.is_some()
    }

    fn kills(&self) -> bool {
        matches!(self.end, Some(End::KillAt(_)))
    }

    fn deadline(&self) -> Instant {
        match self.end {
            Some(End::KillAt(at)) => at,
            _ => Instant::now(),
        }
    }

    fn kill(&mut self, job: &Job) {
        job.signal(Signal::KILL);
        self.end = Some(End::Killed);
    }

    fn why(&self, reason: LossReason) -> String {
        let why = match reason {
            LossReason::MaxHold => "--max-hold is over",
            LossReason::Expired | LossReason::NotHeld => {
                if let Some(trouble) = self.file.as_ref().and_then(LockFile::trouble) {
                    return trouble;
                }
                if reason == LossReason::NotHeld {
                    UNKNOWN
                } else {
                    "it could not be renewed in time"
                }
            }
            _ => "it is no longer renewed",
        };
        why.to_owned()
    }

    async fn lose(&mut self, reason: LossReason, job: &mut Job) {
        let after = human(self.started.elapsed());
        let why = self.why(reason);
        match self.on_loss {
            OnLoss::Ignore => {
                self.output.error(format!(
                    "the lock was lost after {after} ({why}); the command goes on without it"
                ));
                self.end = Some(End::Never);
            }
            OnLoss::End(grace) => {
                self.output.error(format!(
                    "the lock was lost after {after} ({why}); the command is ended"
                ));
                // Signal the command first: the keeper may not answer at once.
                if grace.is_zero() {
                    self.kill(job);
                } else {
                    job.signal(Signal::TERM);
                    // A stopped command does not handle SIGTERM.
                    job.signal(Signal::CONT);
                    self.end = Some(End::KillAt(Instant::now() + grace));
                }
                // If this process dies before the grace is over, the keeper ends the command.
                job.keeper.allow(grace + SLACK).await;
            }
        }
    }

    /// Tells the keeper how long the lock is valid.
    async fn tell(&self, job: &mut Job) {
        if let Some(allowed) = allowed(self.held, self.on_loss).filter(|_| self.end.is_none()) {
            job.keeper.allow(allowed).await;
        }
    }

    fn hear(&self, event: &Event, job: &mut Job) {
        match event {
            // The command must not continue without its lock. The loss is handled next.
            Event::Signal(Signal::CONT) if self.held.is_lost() && self.end.is_none() => {}
            Event::Signal(Signal::CONT) => {
                job.lend_terminal();
                job.signal(Signal::CONT);
            }
            Event::Signal(signal) => {
                job.signal(*signal);
                if ends(*signal) {
                    // A stopped command does not handle SIGTERM.
                    job.signal(Signal::CONT);
                }
            }
            Event::Child => {
                job.keeper.mend();
                if job.stopped_by().is_some_and(|signal| job.is_stopped_from_terminal(signal)) {
                    self.stop_too(job);
                }
            }
        }
    }

    /// The command was stopped from the terminal, so this program stops too, and the shell
    /// continues. The lock stays held without renewals until it expires.
    fn stop_too(&self, job: &mut Job) {
        if self.was_lost() {
            job.signal(Signal::CONT);
            return;
        }
        job.terminal = None;
        let _ = kill_process(getpid(), Signal::STOP);
        // This program was continued. The SIGCONT arrives as an event and is forwarded.
    }

    /// Ends the processes that are left of the group.
    async fn clear(&self, job: &Job) {
        let at = match self.end {
            Some(End::KillAt(at)) => at,
            Some(End::Killed) => Instant::now(),
            Some(End::Never) | None => return,
        };
        while job.is_alive() && Instant::now() < at {
            sleep(Duration::from_millis(10)).await;
        }
        job.signal(Signal::KILL);
    }
}

/// The store cannot tell these causes apart.
pub(super) const UNKNOWN: &str = "the store no longer knows the lock: it was released by hand or taken over, or the \
                                  store lost its data";

fn status_of(status: ExitStatus) -> Status {
    match (status.code(), status.signal()) {
        (Some(code), _) => Status::new(code.to_le_bytes()[0]),
        (None, Some(signal)) => Status::of_signal(signal),
        (None, None) => Status::INTERNAL,
    }
}
