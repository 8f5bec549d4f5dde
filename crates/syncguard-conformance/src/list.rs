//! The list of cases. The catalogue, the dispatch and the generated tests are made from it.

/// Calls a macro with the list: `[path::of::macro] [its first arguments]`.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_case {
    ([$($callback:tt)+] $input:tt) => {
        $($callback)+! { $input
            lifecycle Lifecycle {
                acquire_takes_a_free_key:
                    "A key that nobody holds is granted at the first attempt, under the request's lock id, and is locked from then on.",
                release_frees_the_key:
                    "After a release the key is free at once, for everybody, and no lookup shows the lock.",
                extend_prolongs_the_lock:
                    "Acquire and extend report the expiry that is stored; an extend of a live lock makes it later, and nothing else changes.",
                is_locked_follows_the_lock:
                    "is_locked says whether the key's lock is live: false before, true while it is held, false after.",
                the_expiry_is_the_stores_time_plus_the_ttl:
                    "The expiry of an acquisition is the store's time now plus the TTL.",
                a_lock_lives_for_exactly_its_ttl:
                    "Expiry and time of acquisition come from one reading of the clock and are exactly the TTL apart.",
                the_longest_ttl_works:
                    "A TTL of 100 years is granted, stored and shown to the millisecond.",
                clones_share_the_store:
                    "A clone of a backend sees, extends and releases the locks of the original.",
                connections_share_the_store:
                    "Every connection to the store sees, extends and releases the same locks.",
                work_runs_under_the_lock:
                    "lock() holds the key while the work runs, hands its result back, and has released the key when it returns.",
                a_guard_extends_and_releases:
                    "A guard extends its lock and releases it once.",
                a_dropped_guard_frees_the_key:
                    "Dropping a guard releases its lock in the background.",
            }
            fencing Fencing {
                the_first_fence_is_one:
                    "The first acquisition of a key that was never locked has fence 000000000000001.",
                fences_grow_with_every_acquisition:
                    "Every acquisition of a key has a fence above all earlier ones, no matter through which clone or connection the key is taken.",
                fences_grow_across_expiry:
                    "A holder that follows an expired lock has a higher fence.",
                each_key_has_its_own_counter:
                    "Each key has its own fence counter.",
                an_extend_keeps_the_fence:
                    "An extend leaves the fence as it is, and uses none up.",
                the_next_fence_follows_the_counter:
                    "The next fence is one above what the counter holds.",
                large_fences_keep_every_digit:
                    "All 15 digits of a fence are exact, wherever it is read.",
                a_fence_above_the_warning_level_is_granted:
                    "Above 090000000000000 fences are granted like any others.",
                a_fence_above_the_warning_level_is_logged:
                    "Above 090000000000000 every acquisition logs a warning that names the key's hash.",
                the_last_fence_is_granted:
                    "The highest fence, 900000000000000, is granted, and its holder is like any other: rivals are refused, and it asks again, extends and releases.",
                a_refusal_uses_up_no_fence:
                    "A refused acquire uses up no fence: the next holder's is the next number.",
                an_exhausted_counter_grants_nothing:
                    "An acquire above the highest fence answers Internal, each time, and leaves no lock behind.",
            }
            contention Contention {
                a_held_key_is_refused:
                    "While a key is held, an acquire under another lock id answers Locked, on the same connection and on every other; contention is no error.",
                a_refusal_says_how_long_at_most:
                    "The answer to an acquire of a held key says after how long the key is free at the latest: what is left of the TTL, and the tolerance.",
                a_holder_of_this_library_does_not_poll:
                    "Neither a refusal nor a watch takes a holder of this library for a client that only polls, whatever the holder is called.",
                a_key_is_free_when_the_refusal_said:
                    "After the time that a refusal gave, the key can be taken if its holder has not extended the lock.",
                a_refusal_changes_nothing:
                    "However often a held key is tried, holder, expiry and fence stay as they are, whatever TTL was asked for.",
                a_refused_request_is_granted_once_the_key_is_free:
                    "The lock id of a refused request finds, extends and releases nothing; sent again as it is, the request is granted when the key is free.",
                a_waiting_contender_gets_its_turn:
                    "acquire() waits while the key is held and has it soon after its release, under a higher fence.",
                waiting_ends_with_the_time_limit:
                    "acquire() gives a held key up with AcquisitionTimeout when its time is over, changes nothing, and names the holder if it waited.",
            }
            expiration Expiration {
                a_lock_is_live_within_the_tolerance:
                    "Until one second after its expiry a lock is live: is_locked and both lookups see it, and nobody else gets it.",
                a_lock_is_free_after_the_tolerance:
                    "One second after its expiry a lock is over: it is neither seen, by key or by lock id, nor in the way.",
                a_release_within_the_tolerance_succeeds:
                    "A release succeeds until one second after the expiry.",
                an_extend_after_the_tolerance_revives_nothing:
                    "Once a lock is over, an extend and a release answer NotHeld, and an extend never brings it back.",
                an_extend_replaces_what_was_left:
                    "The TTL of an extend counts from now; it is not added to what was left.",
                an_extend_can_shorten:
                    "An extend with a TTL below what was left brings the expiry forward.",
                a_shortened_lock_ends_early:
                    "A lock that was shortened is over, for its key and for its id, one second after its new expiry.",
                an_extended_lock_outlives_its_first_ttl:
                    "An extended lock is live for its key and for its id when its first TTL and the tolerance have passed.",
                the_shortest_ttl_works:
                    "A TTL of one millisecond is granted; the tolerance covers it like any other.",
                auto_extend_outlives_the_ttl:
                    "An auto-extended guard keeps its lock beyond TTL and tolerance, and frees the key when it is released.",
                an_extend_within_the_tolerance_succeeds:
                    "An extend succeeds until one second after the expiry, and the lock lives on for the new TTL.",
                an_extended_lock_has_the_tolerance_again:
                    "Until one second after the expiry of an extend as well, the lock is live, rivals are refused, and its holder extends and releases it.",
            }
            ownership Ownership {
                an_unknown_id_touches_nothing:
                    "Release and extend find their lock by the lock id alone; an id that no lock has answers NotHeld(NotFound) and changes nothing.",
                a_lock_is_released_once:
                    "At most one release of a lock succeeds; later ones answer NotHeld(NotFound).",
                a_lock_id_touches_its_own_lock_alone:
                    "Of several locks, release and extend touch the one with the lock id.",
                an_old_id_cannot_touch_the_next_lock:
                    "After a lock expired and the key was taken by someone else, the old lock id finds, releases and extends nothing.",
                a_released_id_cannot_touch_the_next_lock:
                    "After a release, the lock id finds, extends and releases nothing, whoever holds the key next.",
                the_same_request_gets_the_same_lock:
                    "An acquire whose lock id the live lock carries already is answered with that lock, same fence and same expiry, and changes nothing, whatever TTL it asks for.",
                the_same_request_within_the_tolerance_gets_the_same_lock:
                    "Until the tolerance after its expiry is over, a lock is live for an acquire that carries its lock id as well.",
                a_released_request_takes_a_new_lock:
                    "After a release, the same request takes the key anew, under a higher fence.",
                an_expired_request_takes_a_new_lock:
                    "After an expiry, the same request takes the key anew, under a higher fence and with a new expiry.",
                a_guard_learns_that_its_lock_is_gone:
                    "A guard that renews its lock reports the loss when the store says that the lock is gone.",
            }
            lookup Lookup {
                a_lookup_shows_the_lock:
                    "A lookup by key shows who holds the key, since when and until when, and under which fence; a lookup by lock id shows the same.",
                a_lookup_of_nothing_is_none:
                    "A lookup of a key that was never locked, or of an id that no lock has, is None.",
                a_lookup_shows_hashes:
                    "A lookup shows the hashes of the user's key and of the lock id.",
                a_lookup_exposes_the_users_key_and_lock_id:
                    "Exposed, a lookup gives the key as the user wrote it, not as the store names it, and the lock id.",
                a_lookup_shows_the_holder_of_the_lock_or_none:
                    "A lookup and a listing show the holder that the lock was taken with, also after an extend. A store may keep no holders, but it never shows that of an earlier lock.",
                no_look_shows_the_holder_of_another_lock:
                    "While other callers take and release a key, a lookup and a listing show the holder of the very lock that they describe.",
                an_extend_keeps_the_time_of_acquisition:
                    "The time of acquisition stays what it was when the lock is extended.",
                looking_changes_nothing:
                    "is_locked, and lookups by key and by lock id, only read: a live lock that is looked at again and again stays as it is.",
                looking_does_not_prolong_the_lock:
                    "A lock that is looked at all the time ends when it would have ended unseen.",
                the_helpers_agree_with_the_lookup:
                    "get_by_key, get_by_id, their raw forms and owns say what the lookup says.",
            }
            hints Hints {
                a_right_hint_changes_no_answer:
                    "With the lock's own key as a hint, release, extend and lookup answer as without one.",
                a_wrong_hint_finds_the_lock_of_the_id:
                    "A lookup by lock id finds its lock whichever key is the hint.",
                a_wrong_hint_extends_the_lock_of_the_id:
                    "An extend with another key as a hint extends the lock with its id, and leaves the lock of that key alone.",
                a_wrong_hint_releases_the_lock_of_the_id:
                    "A release with another key as a hint frees the lock with its id, and leaves the lock of that key alone.",
                a_hint_gives_other_ids_nothing:
                    "An id that no lock has, or whose lock was released, finds, extends and releases nothing, though its hint is a key that is held.",
                any_key_can_be_a_hint:
                    "Every key is allowed as a hint, also one that the store does not let anybody lock.",
            }
            expectation Expectation {
                the_stored_expiry_is_expected_rightly:
                    "An extend that expects the stored expiry is carried out like any other.",
                another_expected_expiry_changes_nothing:
                    "An extend that expects another expiry than the stored one answers Mismatch with the stored one, and changes nothing.",
                an_older_extend_that_comes_late_never_shortens:
                    "An extend that comes after a later one with the same expectation changes nothing, so it never shortens the lock.",
                every_extend_changes_the_expiry:
                    "An extend never leaves the expiry as it was: one that comes to the same time adds a millisecond.",
                a_lost_lock_is_not_held_whatever_is_expected:
                    "An extend of a lock that is not live answers NotHeld, whatever it expects.",
                the_expectation_counts_within_the_tolerance:
                    "Until the tolerance after its expiry is over, a lock is extended if its expiry is expected, and else left as it is.",
                each_extend_of_a_batch_has_an_answer_of_its_own:
                    "Extends that may go together at one moment are answered each by itself: of live locks, of one lock twice, of an extended, a released, an expired and an unknown one, and of another holder's.",
                of_many_extends_with_one_expectation_one_applies:
                    "Of many extends with the same expectation at the same time exactly one is carried out; the others answer Mismatch with its expiry.",
                a_guard_goes_on_from_the_stored_expiry:
                    "A guard whose lock was extended unknown to it hears of the stored expiry, and extends from there.",
            }
            cancellation Cancellation {
                a_fired_token_stops_an_acquire:
                    "An acquire whose token has fired answers Aborted, takes nothing and uses up no fence.",
                a_fired_token_stops_a_release:
                    "A release whose token has fired answers Aborted and releases nothing.",
                a_fired_token_stops_an_extend:
                    "An extend whose token has fired answers Aborted and changes nothing.",
                a_fired_token_stops_a_look:
                    "is_locked, and a lookup by key and by lock id, answer Aborted if the token has fired.",
                a_quiet_token_changes_nothing:
                    "A token that does not fire makes no difference, and one that fires after the answer changes nothing.",
                a_token_fired_on_the_way_leaves_no_lock:
                    "An acquire that is aborted on its way leaves no lock behind.",
                a_token_fired_on_the_way_leaves_a_whole_lock_or_none:
                    "A release or an extend that is aborted on its way happens completely or not at all.",
                a_dropped_acquire_leaves_no_lock:
                    "An acquire whose future is dropped, whenever that is, leaves no lock behind.",
                a_dropped_release_leaves_a_whole_lock_or_none:
                    "A release whose future is dropped happens completely or not at all.",
                a_dropped_extend_leaves_a_whole_lock:
                    "An extend whose future is dropped happens completely or not at all, and never after a release.",
                aborted_tasks_leave_no_lock:
                    "Many tasks that are aborted while they contend for a key leave no lock behind.",
                a_cancelled_wait_ends_at_once:
                    "acquire() stops waiting for a held key as soon as its token fires, and changes nothing.",
            }
            keys Keys {
                both_normal_forms_are_one_key:
                    "Composed and decomposed spellings of the same characters are one key.",
                similar_keys_are_different_keys:
                    "Keys that differ in case, spaces, width, accents or invisible characters are different keys.",
                the_longest_keys_work:
                    "Keys of 512 bytes work like any others, in ASCII and beyond.",
                long_keys_are_told_apart_by_their_last_byte:
                    "Keys of 512 bytes that differ in the last byte are different keys with counters of their own.",
                keys_may_look_like_paths:
                    "Slashes, dots and colons in a key mean nothing.",
                keys_may_look_like_the_stores_own_names:
                    "A key that looks like the name of a fence counter, an index or a hash tag is a key like any other, and touches no other key.",
                keys_may_hold_quotes_and_wildcards:
                    "Quotes, wildcards, placeholders and statements in a key mean nothing.",
                keys_may_hold_control_characters_and_emoji:
                    "Control characters, line ends and characters of every plane are kept as they are.",
                dots_are_keys:
                    "A single dot and two dots are keys like any others.",
                a_key_may_read_like_a_lock_id:
                    "A key whose text is a lock id has nothing to do with that lock.",
            }
            errors Errors {
                capabilities_are_truthful:
                    "A backend has a name, and says that it fences exactly if its acquisitions carry fences.",
                debug_output_hides_key_and_lock_id:
                    "Debug of requests, answers, lookups and guards shows neither key nor lock id.",
                errors_hide_key_and_lock_id:
                    "Neither Display nor Debug of an error, nor any of its causes, shows key or lock id.",
                logs_hide_key_and_lock_id:
                    "Nothing that is logged through tracing, at any level, shows key or lock id.",
                a_corrupt_record_is_an_internal_error:
                    "A stored record that makes no sense answers Internal and never counts as free.",
                a_corrupt_record_ends_a_hold:
                    "A guard whose extend meets a record that makes no sense is over at once: the error says that the record is lost.",
                a_corrupt_record_is_never_cleared:
                    "A stored record that makes no sense is left for people to look at: nothing deletes or repairs it.",
            }
            concurrency Concurrency {
                one_of_many_racers_wins:
                    "Of many acquires of a free key at the same time exactly one is granted, and the others are refused.",
                an_expired_lock_has_one_heir:
                    "Of many acquires of a key with an expired lock at the same time exactly one is granted.",
                locks_of_one_key_never_overlap:
                    "At no time do two hold the same key, and fences grow in the order of the holders.",
                locked_work_never_overlaps:
                    "Work under lock() never overlaps, whichever connections it uses.",
                different_keys_do_not_contend:
                    "Acquires of different keys at the same time are all granted.",
                one_of_many_releases_succeeds:
                    "Of many releases of one lock at the same time exactly one answers Released.",
                racing_extends_leave_one_expiry:
                    "Extends of one lock at the same time all succeed, and the stored expiry is the answer of one of them.",
                an_extend_never_undoes_a_release:
                    "Whatever an extend answers at the same time, a released lock stays released.",
                one_request_sent_many_times_at_once_is_one_lock:
                    "The same request sent several times at once is granted as one lock, with one fence and one expiry.",
                an_old_holder_cannot_disturb_its_heirs:
                    "Releases and extends under the id of an expired lock, at the same time as others take the key, change nothing.",
            }
            cleanup Cleanup {
                a_release_leaves_nothing_behind:
                    "What a released lock had is gone: its successor starts afresh.",
                an_expiry_leaves_nothing_behind:
                    "Once the key of an expired lock has been taken and released again, no trace of the expired lock shows.",
                a_counter_outlives_the_cleanup:
                    "Whatever is cleared away of an expired lock, fence counters stay and the key stays usable.",
                asking_about_an_expired_lock_spares_the_next_one:
                    "Clearing an expired lock away on is_locked never touches the lock that follows it.",
                expired_locks_do_not_disturb_live_ones:
                    "However many locks expire and are cleared away, live ones stay as they are.",
            }
            signals Signals {
                a_release_is_heard:
                    "A watch that was handed out hears of the next release by any client, and by the client that made it.",
                a_watch_does_not_take_a_free_key_for_locked:
                    "A watch says that the lock is live only if it was, when the store was asked after it began to listen.",
                a_release_of_another_key_says_nothing_of_this_one:
                    "Releases of other keys do not keep a watch from hearing that of its own.",
                no_release_is_lost_between_a_refusal_and_the_wait:
                    "A caller that is refused, begins to listen and looks again hears of every release, at whatever moment it comes.",
            }
            inventory Inventory {
                a_listing_shows_every_live_lock:
                    "A listing shows each live lock under the prefix, as a lookup shows it.",
                a_listing_shows_no_lock_that_is_over:
                    "A listing shows no lock that was released or has expired.",
                a_listing_shows_a_lock_within_the_tolerance:
                    "A lock that has expired is listed until the tolerance has passed as well.",
                a_listing_goes_by_the_beginning_of_keys:
                    "A prefix is text: a listing shows the keys that begin with it and no others, whatever signs are in it.",
                a_listing_shows_keys_as_they_are:
                    "A listing shows the users' keys, whatever the store calls their records.",
                pages_show_each_lock_once:
                    "The pages of a listing, of whatever size, show each lock exactly once.",
                what_comes_and_goes_hides_no_lock:
                    "While locks come and go, the pages show each that stays, and no key twice.",
                the_next_page_begins_where_the_page_ended:
                    "The request for the next page leads on from the page that it came with, again and again, on any connection.",
                a_corrupt_record_hides_no_other:
                    "A stored record that makes no sense is told of, and hides no other lock.",
                looking_over_all_changes_nothing:
                    "Listings and looks at counters change neither a lock nor a counter.",
                the_counter_of_a_key_is_its_last_fence:
                    "The counter of a key is the fence of its last acquisition, after its end as well, and none if there was none.",
                counters_of_free_keys_are_listed:
                    "A listing of counters shows those of keys that are not locked as well, each exactly once.",
                a_raised_counter_gives_higher_fences:
                    "After a raise the next acquisition gets a higher fence, and a lock that is held keeps its own.",
                a_raise_never_lowers_a_counter:
                    "A raise to less than the counter is leaves it as it is, and says what it is.",
                a_counter_raised_to_the_end_grants_nothing:
                    "A counter that was raised to the last fence grants no further one.",
                raises_and_acquires_at_once_keep_fences_growing:
                    "Whatever raises go on at the same time, fences grow, and each is above what the counter was before its acquire.",
            }
            windows Windows {
                a_window_gives_its_first_fence:
                    "An acquire in a window gets the window's first fence if the key's counter is lower.",
                the_acquires_of_a_window_get_ascending_fences:
                    "While the counter is below the window's limit, each acquire in the window gets the next fence; at the limit no acquire is granted.",
                a_used_up_window_is_taken:
                    "A free key whose counter has reached the window's limit answers Taken, with the counter.",
                a_used_up_window_is_taken_in_any_case:
                    "A key whose counter has reached the window's limit answers Taken, with the counter, while it is locked and before the window's time as well.",
                a_held_key_is_locked_below_the_limit:
                    "From the window's time on, a held key whose counter is below the window's limit answers Locked.",
                a_window_is_too_early_before_its_time:
                    "Before the window's time by the store's clock a key, held or free, answers TooEarly, and how long it is until then.",
                a_window_opens_at_its_time:
                    "From the window's time on, to the millisecond of the store's clock, the lock is granted.",
                a_plain_acquire_goes_on_from_a_windows_fence:
                    "The counter goes on from the fence of an acquire in a window.",
                a_refused_window_uses_up_no_fence:
                    "An acquire that its window refuses leaves the counter as it is.",
                a_refused_window_changes_no_lock:
                    "An acquire that its window refuses takes no lock and changes none.",
                the_same_request_in_a_window_gets_the_same_lock:
                    "A request whose lock id holds the key gets its lock again, though the window is used up since.",
                a_dead_holder_is_followed_within_the_window:
                    "When the lock of a window expires, the next acquire in the window is granted if a fence is left.",
                many_at_once_use_up_a_window_once:
                    "However many ask for one window at once, as many are granted as the window has fences.",
                a_release_raises_the_counter_of_its_lock:
                    "A release that names a counter frees the lock and raises the counter, which it never lowers.",
                a_release_that_frees_nothing_raises_no_counter:
                    "A release that names a counter and frees no lock of this key leaves the counter as it is.",
                windows_keep_every_digit:
                    "All 15 digits of a window's fences count, up to the highest fence.",
            }
            late Late {
                a_request_that_is_a_little_late_is_served:
                    "A request that is held up on its way for less than its bound is carried out and answered.",
                a_late_acquire_takes_no_lock:
                    "An acquire that arrives when its bound is over takes no lock.",
                a_late_acquire_leaves_nothing_after_the_clean_up:
                    "When the clean-up of an acquire that was given up has ended, the request can arrive and leaves no lock.",
                the_first_of_two_acquires_comes_late:
                    "An acquire that was sent twice leaves no lock after its release, though the first sending arrives then.",
                a_late_extend_changes_nothing:
                    "An extend that arrives when its bound is over changes nothing.",
                a_late_extend_gives_way_to_a_later_one:
                    "An extend with an expectation that arrives after a later extend changes nothing, within its bound too.",
                a_late_release_frees_nothing:
                    "A release that arrives when its bound is over leaves the lock to its holder, who has extended it since.",
                a_grant_that_comes_too_late_is_given_back:
                    "A lock that is granted so late that its TTL is over when the answer comes is not handed out, and the key is free.",
            }
        }
    };
}
