use std::sync::atomic::AtomicUsize;

use super::*;

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn wake_during_a_poll_polls_again_and_later_wakes_reach_the_task() {
    let (budget, counted) = (PollBudget::new(), Arc::<Counted>::default());
    let outer = Waker::from(counted.clone());
    let mut polls = 0;
    let mut inner = None;
    let ended = budget.run(&mut Context::from_waker(&outer), |context| {
        polls += 1;
        if polls < 3 {
            context.waker().wake_by_ref();
        }
        inner = Some(context.waker().clone());
        Poll::<()>::Pending
    });
    assert!(ended.is_pending());
    assert_eq!((polls, counted.0.load(Ordering::SeqCst)), (3, 0));
    inner.unwrap().wake();
    assert_eq!(counted.0.load(Ordering::SeqCst), 1);
}

#[test]
fn yields_after_the_budget() {
    let (budget, counted) = (PollBudget::new(), Arc::<Counted>::default());
    let outer = Waker::from(counted.clone());
    let mut polls = 0;
    let ended = budget.run(&mut Context::from_waker(&outer), |context| {
        polls += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(ended.is_pending());
    assert_eq!((polls, counted.0.load(Ordering::SeqCst)), (POLLS_MAX, 1));
}
