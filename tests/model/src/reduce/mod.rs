//! Fewer worlds that say as much.
//!
//! Three things make worlds one, and each has its own reason to be right:
//!
//! 1. **Order.** Clients of one kind that have done the same are interchangeable: no rule and no step asks for
//!    a client's number. So they are put in order. (`in_order`)
//! 2. **Forgetting.** What no step will look at any more has one value for all, and requests and jobs that can
//!    change nothing any more are gone. A world and its smaller one go on to the same worlds, made smaller.
//!    (`forget`, here and in each store.) The test below tries this for every step of every world in small sizes.
//! 3. **Haste.** What a client alone waits for, and is the worse off the later it comes, comes at once: whoever
//!    relies on a lock for longer, and may begin sooner, does all that one may do who is told later.
//!    (`hasten`.) This holds only where nothing can be lost any more, else the wait is what matters.
//!
//! Where a rule is broken on purpose of which such a reason makes use, it is left alone.

use crate::rules::{Flaw, Rules};
use crate::world::{Again, Answer, Asks, Client, Phase, Request, Store, World};

impl<S: Store> World<S> {
    /// The one of all the worlds like this one.
    pub(crate) fn small(mut self, rules: &Rules) -> Self {
        // A counter that is set back to nothing counts from nothing.
        if !rules.has(Flaw::CounterCleanedUp) {
            S::rebase(&mut self);
        }
        if !rules.is_reduced {
            return self.sorted();
        }
        self.hasten(rules);
        self.forget(rules);
        self.sorted().in_order()
    }

    /// Lets happen at once what may as well.
    fn hasten(&mut self, rules: &Rules) {
        if self.left.lost > 0 {
            return;
        }
        S::hasten(self, rules);
        self.hear(rules);
    }

    /// Hears at once that a lock is had.
    fn hear(&mut self, rules: &Rules) {
        // It counts from the asking, and until then the earlier of both ends does: nothing is won by hearing it late.
        if rules.has_any(&[Flaw::PromiseFromReply, Flaw::OptimisticExtend]) {
            return;
        }
        for client in &mut self.clients {
            client.receive(rules);
        }
    }

    /// Forgets what makes no difference any more.
    pub(crate) fn forget(&mut self, rules: &Rules) {
        S::forget(self, rules);
        let (may_lose, may_extend) = (self.left.lost > 0, self.left.extends > 0);
        for client in &mut self.clients {
            // Theirs never states it.
            let is_stated = may_extend && !client.is_typescript;
            client.forget(may_lose, is_stated);
        }
        for who in 0..self.clients.len() {
            self.forget_ended(rules, who);
        }
    }

    /// When a client has ended matters as long as it may still write something that lives too long.
    fn forget_ended(&mut self, rules: &Rules, who: usize) {
        let client = &self.clients[who];
        let is_settled = client.late.iter().flatten().all(|it| S::will_live(it, rules).is_some());
        let is_in_time = is_settled && self.is_over_in_time(rules, who);
        let is_named = self.store.names(who);
        let client = &mut self.clients[who];
        if let Phase::Ended { at } = &mut client.phase
            && is_in_time
        {
            *at = 0;
        }
        let is_over = match client.phase {
            Phase::Ended { at } => at == 0 && client.left == 0,
            Phase::Idle => client.left == 0,
            _ => false,
        };
        if is_over && client.jobs == [None; _] {
            // No clock of its own is asked any more.
            client.drift = 0;
            if client.late == [None; _] && !is_named {
                client.phase = Phase::Idle;
                client.is_typescript = false;
            }
        }
    }

    /// Whether the lock of a client that has ended, and any that it is about to write, is over in time.
    pub(crate) fn is_over_in_time(&self, rules: &Rules, who: usize) -> bool {
        let client = &self.clients[who];
        let Phase::Ended { at } = client.phase else { return true };
        if client.is_typescript {
            return true;
        }
        let live = S::live(self, rules).filter(|(owner, _)| usize::from(owner.client) == who);
        let written = client.late.iter().flatten().filter_map(|it| S::will_live(it, rules));
        let mut lives = written.chain(live.map(|(_, lives)| lives));
        lives.all(|lives| lives <= 0 || lives - at <= rules.longest())
    }
}

impl<S: Store> Client<S> {
    fn forget(&mut self, may_lose: bool, is_stated: bool) {
        // Nobody hears what is late.
        for late in self.late.iter_mut().flatten() {
            late.asked = 0;
            late.is_again = false;
        }
        if let Phase::Holds { known, .. } = &mut self.phase
            && !is_stated
        {
            *known = S::for_release(*known);
        }
        if let Some(request) = &mut self.waits {
            request.forget(may_lose, is_stated);
            if let Asks::Extend { known, .. } = &mut request.asks
                && self.is_typescript
            {
                *known = S::for_release(*known);
            }
        }
        // It is one look, whenever it comes.
        for job in self.jobs.iter_mut().flatten().filter(|job| !job.is_acquire) {
            job.sent = 0;
        }
    }
}

impl<S: Store> Request<S> {
    /// One that is waited for.
    fn forget(&mut self, may_lose: bool, is_stated: bool) {
        let is_acquire = self.asks == Asks::Acquire;
        if matches!(self.asks, Asks::Release { .. }) {
            self.asked = 0;
        }
        if !may_lose && (!is_acquire || S::AGAIN == Again::Everything) {
            self.is_again = false;
        }
        if let Some(Answer::Granted(known) | Answer::Extended(known)) = &mut self.answer {
            if !is_stated {
                *known = S::for_release(*known);
            }
            // It is not refused any more; when it was sent only tells how long to see to it if it is lost.
            if !is_acquire || !may_lose && !self.is_again {
                self.sent = 0;
            }
        }
        if let Asks::Extend { known, .. } = &mut self.asks
            && !may_lose
            && self.answer.is_some()
        {
            *known = S::for_release(*known);
        }
    }
}

#[cfg(test)]
mod tests;
