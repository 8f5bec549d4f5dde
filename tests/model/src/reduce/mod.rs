//! Reduces the number of worlds without losing a result.
//!
//! Three rules merge worlds, each for its own reason:
//!
//! 1. **Order.** Clients of one kind with the same history are interchangeable, because no rule and no step depends on
//!    a client's number. So they are sorted. (`in_order`)
//! 2. **Forgetting.** Facts that no later step uses get one value, and requests and jobs that cannot change anything
//!    any more are removed. A world and its reduced form lead to the same worlds, reduced. (`forget`, here and in each
//!    store.) The test below checks this for every step of every world in small sizes.
//! 3. **Haste.** An event that only one client waits for, and whose delay only harms that client, happens at once: a
//!    client that relies on a lock for longer, and may begin sooner, does all that a client does that is told later.
//!    (`hasten`.) This holds only if the event cannot be lost any more; otherwise the wait matters.
//!
//! A rule that a planted violation breaks is not used for a reduction that relies on it.

use crate::rules::{Flaw, Rules};
use crate::world::{Again, Answer, Asks, Client, Phase, Request, Store, World};

impl<S: Store> World<S> {
    /// The representative of all equivalent worlds.
    pub(crate) fn small(mut self, rules: &Rules) -> Self {
        // A counter that was reset counts from zero, and so does that of a tick.
        if !rules.has(Flaw::CounterCleanedUp) && !rules.is_one_tick {
            S::rebase(&mut self);
        }
        if !rules.is_reduced {
            return self.sorted();
        }
        self.hasten(rules);
        self.forget(rules);
        self.sorted().in_order()
    }

    /// Lets events happen at once that may.
    fn hasten(&mut self, rules: &Rules) {
        if self.left.lost > 0 {
            return;
        }
        S::hasten(self, rules);
        self.hear(rules);
    }

    /// Delivers a grant at once.
    fn hear(&mut self, rules: &Rules) {
        // The time counts from the request, and until the answer the earlier of both ends counts, so a late answer
        // gains nothing.
        if rules.has_any(&[Flaw::PromiseFromReply, Flaw::OptimisticExtend]) {
            return;
        }
        for client in &mut self.clients {
            client.receive(rules);
        }
    }

    /// Forgets facts that make no difference any more.
    pub(crate) fn forget(&mut self, rules: &Rules) {
        S::forget(self, rules);
        let (may_lose, may_extend) = (self.left.lost > 0, self.left.extends > 0);
        for client in &mut self.clients {
            // The TypeScript library never states it.
            let is_stated = may_extend && !client.is_typescript;
            client.forget(may_lose, is_stated);
        }
        for who in 0..self.clients.len() {
            self.forget_ended(rules, who);
        }
    }

    /// The time of a client's end matters as long as it may still write a lock that lives too long.
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
            // Its clock is not used any more.
            client.drift = 0;
            if client.late == [None; _] && !is_named {
                client.phase = Phase::Idle;
                client.is_typescript = false;
            }
        }
    }

    /// Returns true if the lock of a client that has ended, and any that it will still write, is over in time.
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
        // Late answers have no receiver.
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
        // A look happens once, at any time.
        for job in self.jobs.iter_mut().flatten().filter(|job| !job.is_acquire) {
            job.sent = 0;
        }
    }
}

impl<S: Store> Request<S> {
    /// A request with a waiting caller.
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
            // The job cannot be refused any more; its send time only limits the clean-up if the answer is lost.
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
