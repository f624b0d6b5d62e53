"""Operations as text, one module for each way of looking at them. Text in, text out: no I/O."""
