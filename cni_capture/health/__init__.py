"""Is it capturing, and if not, why?"""
