#include "mainspring/cli/interrupt.h"

namespace mainspring::cli {
namespace {

// A handler reaches nothing but globals.
volatile sig_atomic_t g_pending = 0;
volatile sig_atomic_t g_second_ends = 0;

void on_signal(int signal) {
  if (g_pending != 0 && g_second_ends != 0) {
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, nullptr);
    raise(signal);
    return;
  }
  g_pending = signal;
}

}  // namespace

Interrupt::Interrupt(bool second_ends) {
  g_pending = 0;
  g_second_ends = second_ends ? 1 : 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read returns
  sigaction(SIGINT, &action, &saved_int_);
  sigaction(SIGTERM, &action, &saved_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &saved_int_, nullptr);
  sigaction(SIGTERM, &saved_term_, nullptr);
}

int Interrupt::pending() const { return g_pending; }
void Interrupt::clear() { g_pending = 0; }

}  // namespace mainspring::cli
