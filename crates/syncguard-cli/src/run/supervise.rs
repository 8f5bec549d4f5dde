//! Supervises the running command.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use syncguard::{Held, LossReason};
use tokio::time::{Instant, sleep, sleep_until};

use super::allowance::{SLACK, allowed_time};
use super::group::{Rest, RunsAsAnother};
use super::job::Job;
use super::lock_file::LockFile;
use super::options::LossAction;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::signals::{Event, Signals, asks_to_end};
use crate::time::human;

/// How the command has ended.
pub(super) struct Ended {
    pub(super) status: Status,
    /// True if the lock was lost while the command ran.
    pub(super) was_lost: bool,
    /// Until when the lock was valid, by the last renewal before the end of the command.
    pub(super) valid_until: Instant,
    /// True if a signal asked this program to end. The command got the signal too.
    #[cfg_attr(not(feature = "ticks"), expect(dead_code, reason = "for --loop"))]
    pub(super) was_asked_to_end: bool,
}

/// Waits for the end of the command, forwards signals, and ends the command when the lock is lost.
pub(super) async fn supervise(
    mut job: Job,
    held: &Held,
    loss_action: &LossAction,
    file: Option<LockFile>,
    signals: &mut Signals,
    output: Output,
) -> Result<Ended, Failure> {
    let started = Instant::now();
    let mut supervision = Supervision {
        held,
        loss_action: *loss_action,
        file,
        output,
        started,
        after_loss: None,
        was_asked_to_end: false,
        is_refusal_told: false,
    };
    let mut lost = std::pin::pin!(held.lost());
    let ttl = held.valid_for();
    let mut allowance = std::pin::pin!(sleep(Duration::ZERO));
    let status = loop {
        tokio::select! {
            biased;
            status = job.wait() => break status,
            reason = &mut lost, if !supervision.was_lost() => supervision.handle_loss(reason, &mut job).await,
            event = signals.next() => supervision.handle_event(&event, &mut job),
            () = sleep_until(supervision.deadline()), if supervision.is_kill_planned() => supervision.kill(&job),
            () = &mut allowance => {
                supervision.renew_allowance(&mut job).await;
                allowance.as_mut().reset(Instant::now() + until_renewed(held, ttl));
            }
        }
    };
    // After a pause of the machine, the end of the command and that of the lock are seen at once.
    let left = held.valid_for();
    let valid_until = Instant::now() + left;
    let is_over = left.is_zero() && !supervision.was_lost();
    if supervision.was_lost() {
        supervision.end_group(&job).await;
    }
    // Take the terminal back before anything is printed.
    job.terminal = None;
    job.watchdog.dismiss().await;
    let status =
        status.map_err(|error| Failure::system("the command cannot be waited for", &error))?;
    if is_over {
        output.error(
            "the lock was over when the command had ended; another holder may have run meanwhile",
        );
    }
    Ok(Ended {
        status: status_of(status),
        was_lost: supervision.was_lost() || is_over,
        valid_until,
        was_asked_to_end: supervision.was_asked_to_end,
    })
}

/// The time until a renewal should have been confirmed, and a little more. Renewals come after a third of the TTL.
fn until_renewed(held: &Held, ttl: Duration) -> Duration {
    held.valid_for().saturating_sub(ttl / 3 * 2) + (ttl / 24).max(Duration::from_millis(20))
}

struct Supervision<'a> {
    held: &'a Held,
    loss_action: LossAction,
    file: Option<LockFile>,
    output: Output,
    started: Instant,
    /// Set when the lock is lost.
    after_loss: Option<AfterLoss>,
    was_asked_to_end: bool,
    /// True if the user knows that the command runs as another user.
    is_refusal_told: bool,
}

/// The fate of the command after the loss of its lock.
enum AfterLoss {
    /// The command continues.
    Continue,
    /// The command is killed at this time.
    KillAt(Instant),
    /// The command was killed.
    Killed,
}

impl Supervision<'_> {
    fn was_lost(&self) -> bool {
        self.after_loss.is_some()
    }

    fn is_kill_planned(&self) -> bool {
        matches!(self.after_loss, Some(AfterLoss::KillAt(_)))
    }

    fn deadline(&self) -> Instant {
        match self.after_loss {
            Some(AfterLoss::KillAt(at)) => at,
            _ => Instant::now(),
        }
    }

    fn kill(&mut self, job: &Job) {
        self.signal(job, Signal::KILL);
        self.after_loss = Some(AfterLoss::Killed);
    }

    /// Signals the command. If it cannot be signalled, that is told once.
    fn signal(&mut self, job: &Job, signal: Signal) {
        if let Err(refused) = job.signal(signal) {
            self.tell_refusal(refused);
        }
    }

    fn tell_refusal(&mut self, refused: RunsAsAnother) {
        if !self.is_refusal_told {
            self.is_refusal_told = true;
            self.output.error(refused);
        }
    }

    fn cause(&self, reason: LossReason) -> String {
        let file = self.file.as_ref().and_then(LockFile::problem);
        let why = self.held.extend_error().map(Failure::from);
        match (reason, file, why) {
            (LossReason::MaxHold, ..) => "--max-hold is over".to_owned(),
            (_, Some(problem), _) => problem,
            (LossReason::NotHeld, ..) => LOCK_UNKNOWN.to_owned(),
            (LossReason::Expired, _, Some(why)) => {
                format!("it could not be renewed in time: {why}")
            }
            (LossReason::Expired, ..) => "it could not be renewed in time".to_owned(),
            (LossReason::RecordLost, _, Some(why)) => why.to_string(),
            _ => "it is no longer renewed".to_owned(),
        }
    }

    async fn handle_loss(&mut self, reason: LossReason, job: &mut Job) {
        let after = human(self.started.elapsed());
        let cause = self.cause(reason);
        match self.loss_action {
            LossAction::Ignore => {
                self.output.error(format!(
                    "the lock was lost after {after} ({cause}); the command continues without it"
                ));
                self.after_loss = Some(AfterLoss::Continue);
            }
            LossAction::Terminate(grace) => {
                // A stopped command does not handle SIGTERM.
                let signals = if grace.is_zero() {
                    self.after_loss = Some(AfterLoss::Killed);
                    &[Signal::KILL][..]
                } else {
                    self.after_loss = Some(AfterLoss::KillAt(Instant::now() + grace));
                    &[Signal::TERM, Signal::CONT]
                };
                // Signal the command first: the watchdog may not answer at once.
                let sent = signals.iter().try_for_each(|signal| job.signal(*signal));
                let end = if sent.is_ok() { "is ended" } else { "cannot be ended" };
                self.output
                    .error(format!("the lock was lost after {after} ({cause}); the command {end}"));
                if let Err(refused) = sent {
                    self.tell_refusal(refused);
                }
                // If this process dies before the grace is over, the watchdog ends the command.
                job.watchdog.allow_for(grace + SLACK).await;
            }
        }
    }

    /// Tells the watchdog how long the lock is valid.
    async fn renew_allowance(&self, job: &mut Job) {
        if let Some(allowed) =
            allowed_time(self.held, self.loss_action).filter(|_| self.after_loss.is_none())
        {
            job.watchdog.allow_for(allowed).await;
        }
    }

    fn handle_event(&mut self, event: &Event, job: &mut Job) {
        match event {
            // The command must not continue without its lock. The loss is handled next.
            Event::Signal(Signal::CONT) if self.held.is_lost() && self.after_loss.is_none() => {}
            Event::Signal(Signal::CONT) => {
                job.lend_terminal();
                self.signal(job, Signal::CONT);
            }
            Event::Signal(signal) => {
                self.signal(job, *signal);
                if asks_to_end(*signal) {
                    self.was_asked_to_end = true;
                    // A stopped command does not handle the signal.
                    self.signal(job, Signal::CONT);
                }
            }
            Event::Child => {
                job.watchdog.replace_if_gone();
                job.reap_orphans();
                if job.stopped_by().is_some_and(|signal| job.is_stopped_from_terminal(signal)) {
                    self.stop_with_command(job);
                }
            }
        }
    }

    /// The command was stopped from the terminal, so this program stops too, and the shell
    /// continues. The lock stays held without renewals until it expires.
    fn stop_with_command(&mut self, job: &mut Job) {
        if self.was_lost() {
            self.signal(job, Signal::CONT);
            return;
        }
        job.terminal = None;
        let _ = kill_process(getpid(), Signal::STOP);
        // This program was continued. The SIGCONT arrives as an event and is forwarded.
    }

    /// Ends the processes that are left of the group, and says so if that is not possible.
    async fn end_group(&mut self, job: &Job) {
        let at = match self.after_loss {
            Some(AfterLoss::KillAt(at)) => at,
            Some(AfterLoss::Killed) => Instant::now(),
            Some(AfterLoss::Continue) | None => return,
        };
        Self::until_gone(job, at).await;
        self.signal(job, Signal::KILL);
        Self::until_gone(job, Instant::now() + SLACK).await;
        if job.rest() == Rest::OfOthers {
            self.tell_refusal(RunsAsAnother);
        }
    }

    /// Waits until no process is left that gets our signals, but no longer than until this time.
    async fn until_gone(job: &Job, at: Instant) {
        while job.rest() == Rest::Ours && Instant::now() < at {
            sleep(Duration::from_millis(10)).await;
            job.reap_orphans();
        }
    }
}

/// The store cannot tell these causes apart.
pub(super) const LOCK_UNKNOWN: &str = "the store no longer knows the lock: it was released by hand or taken over, or the store lost its data";

fn status_of(status: ExitStatus) -> Status {
    match (status.code(), status.signal()) {
        (Some(code), _) => Status::new(code.to_le_bytes()[0]),
        (None, Some(signal)) => Status::of_signal(signal),
        (None, None) => Status::INTERNAL,
    }
}
